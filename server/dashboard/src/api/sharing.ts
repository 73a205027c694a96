/**
 * The new value, with equal parts taken from the old one: unchanged parts keep their identity and are not rendered
 * again. Both are JSON.
 */
export function shared<T>(old: unknown, next: T): T {
  if (Object.is(old, next)) return next;
  if (Array.isArray(old) && Array.isArray(next)) {
    const parts = next.map((part, index) => shared(old[index], part));
    return old.length === next.length && parts.every((part, index) => part === old[index]) ? (old as T) : (parts as T);
  }
  if (isObject(old) && isObject(next)) {
    const parts = Object.fromEntries(Object.entries(next).map(([key, part]) => [key, shared(old[key], part)]));
    const keys = Object.keys(parts);
    const same = keys.length === Object.keys(old).length && keys.every((key) => key in old && parts[key] === old[key]);
    return (same ? old : parts) as T;
  }
  return next;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
