/** A command as text: the script in it, and the words around it. */
export interface Written {
  readonly text: string;
  /** The words that run the text, which takes the place of the empty one; none if `/bin/sh -c` does. */
  readonly around: readonly string[];
}

const SLURM_VARIABLES = "slurm-variables";
/** Of the prelude that sets Slurm's variables, see server/aliquot/cli/session/slurm.py. */
const PRELUDE_WORDS = 4;
const SHELL = ["/bin/sh", "-c"] as const;
const HOLE = "";

/** A script as it was written, or arguments with quotes where they are needed. */
export function commandOf(command: readonly string[]): string {
  return writtenOf(command).text;
}

/** The text of a command, and what else belongs to it: an interpreter, arguments, Slurm's variables. */
export function writtenOf(command: readonly string[]): Written {
  const prelude = preludeOf(command);
  const own = command.slice(prelude.length);
  const flag = own.findIndex((word) => word === "-c" || word === "-e");
  const script = own[flag + 1];
  const isShell = own.length === 3 && own[0] === SHELL[0] && flag === 1;
  if (flag > 0 && script !== undefined && (isShell || script.startsWith("#!"))) {
    const before = [...prelude, ...own.slice(0, flag + 1)];
    const isPlain = isShell && prelude.length === 0;
    return { text: script, around: isPlain ? [] : [...before, HOLE, ...own.slice(flag + 2)] };
  }
  return { text: own.map(quoted).join(" "), around: prelude.length ? [...prelude, ...SHELL, HOLE] : [] };
}

/** The words of a command whose text is this one. */
export function wordsAround(text: string, around: readonly string[]): string[] {
  const hole = around.indexOf(HOLE);
  return around.map((word, index) => (index === hole ? text : word));
}

/** What runs the text, in words: `/bin/bash -c … job.sh 7, with Slurm's variables`; null if it is `/bin/sh -c` alone. */
export function aroundText(around: readonly string[]): string | null {
  if (around.length === 0) return null;
  const prelude = preludeOf(around);
  const own = around.slice(prelude.length);
  const hole = own.indexOf(HOLE);
  const words = own.map((word, index) => (index === hole ? "…" : quoted(word))).join(" ");
  return prelude.length ? `${words}, with Slurm's variables` : words;
}

/** What runs the text that is typed as a command, and which lines of it have no effect there. */
export function shellHint(text: string): string {
  const directives = /^#(SBATCH|ALIQUOT)\s/m.exec(text)?.[1];
  if (directives !== undefined) {
    return `#${directives} lines have no effect here: enter their values below, or use aliquot session create FILE.`;
  }
  const interpreter = /^#!\s*(\S.*)/.exec(text)?.[1]?.trim();
  return interpreter === undefined || /^(\/usr)?\/bin\/sh$/.test(interpreter)
    ? "Run by /bin/sh -c."
    : `Run by /bin/sh -c, not by ${interpreter}; aliquot session create FILE runs a script by its first line.`;
}

function preludeOf(command: readonly string[]): readonly string[] {
  const isBehindPrelude = command[1] === "-c" && command[PRELUDE_WORDS - 1] === SLURM_VARIABLES;
  return isBehindPrelude ? command.slice(0, PRELUDE_WORDS) : [];
}

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
