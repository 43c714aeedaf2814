"$PROFGPU" analyze --quiet tests/golden/logs/train.log
