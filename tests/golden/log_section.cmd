"$PROFGPU" analyze tests/golden/logs/train.log --section log
