// One call or assignment, options of a command line, a setting of the environment, a command of ours.
const kRunnable = [/^(?:[\w.]+ = )?[\w.]+\([^;]*\)$/, /^--[\w-]+(?:[ =][^\s;,]+)*$/, /^(?:export )?[A-Z][A-Z0-9_]*=\S+$/, /^profgpu [^;…]*$/];

/** Whether a person can paste a change as it stands: then it looks like code. */
export function isRunnable(text: string): boolean {
  const code = text.replace(/\s+#.*$/, '');
  return !code.includes('…') && !/\) (?:and|or|around|in|on) /.test(code) && kRunnable.some((pattern) => pattern.test(code));
}
