"$PROFGPU" analyze --quiet examples/four-ranks --section brief --width 100
