/** Marks, for the reviver, a string that stands for a number; no answer can hold it. */
const mark = `\0${Math.random()}:`;

/**
 * JSON.parse without rounding. A number that JavaScript can hold stays a
 * number; of the others an integer becomes a bigint, and one with a fraction a
 * string of its digits. `1` is always a number, `9007199254740993` always a
 * bigint.
 */
export function parseExact(text: string): unknown {
  if (!/[\d.]{16}/.test(text)) {
    return JSON.parse(text);
  }
  let found = false;
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => {
    if (token[0] === '"' || survives(token)) {
      return token;
    }
    found = true;
    return JSON.stringify(mark + token);
  });
  if (!found) {
    return JSON.parse(text);
  }
  return JSON.parse(marked, (_key, value: unknown) => {
    if (typeof value !== "string" || !value.startsWith(mark)) {
      return value;
    }
    const digits = value.slice(mark.length);
    return /^-?\d+$/.test(digits) ? BigInt(digits) : digits;
  });
}

/** Whether a JavaScript number prints the digits that it was read from. */
function survives(token: string): boolean {
  const digits = significant(token);
  return digits.length < 16 || digits === significant(String(Number(token)));
}

/** The digits that count: no sign, point, exponent or zeros around them. */
function significant(token: string): string {
  return token.replace(/e.*/i, "").replace(/[-.]/g, "").replace(/^0+|0+$/g, "");
}
