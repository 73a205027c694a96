import { useState } from "react";
import { Button } from "react-aria-components";
import { Text } from "../parts/Text";
import type { Form } from "./form";
import { parametersOf, withValues } from "./parameters";

interface Props {
  readonly form: Form;
  readonly onFilled: (form: Form) => void;
}

/** Asks for the values of a template's parameters. */
export function Parameters({ form, onFilled }: Props) {
  const parameters = parametersOf(form);
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(parameters.map(({ name, fallback }) => [name, fallback ?? ""])),
  );
  const isComplete = parameters.every(({ name, fallback }) => fallback !== null || values[name]?.trim());
  return (
    <section className="stack" aria-label="Parameters">
      <h2>Parameters</h2>
      {parameters.map(({ name }) => (
        <Text
          key={name}
          label={name}
          value={values[name] ?? ""}
          onChange={(value) => setValues({ ...values, [name]: value })}
        />
      ))}
      <Button className="button primary" isDisabled={!isComplete} onPress={() => onFilled(withValues(form, values))}>
        Fill in the form
      </Button>
    </section>
  );
}
