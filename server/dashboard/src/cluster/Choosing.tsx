import { Button } from "react-aria-components";
import { Choice } from "../parts/Choice";
import { NAMES, shortModel, type Chosen } from "./choosing";

interface Props {
  readonly chosen: Chosen;
  readonly choices: Readonly<Record<keyof Chosen, readonly string[]>>;
  readonly onChange: (part: Partial<Chosen>) => void;
}

const ANY = "any";
const NO_FILTER: Chosen = { pool: "", model: "", user: "", node: "" };

/** Filters of the cluster, each only where there is something to choose from. */
export function Choosing({ chosen, choices, onChange }: Props) {
  const shown = NAMES.filter((name) => choices[name].length > 1 || chosen[name]);
  return (
    <>
      {shown.map((name) => (
        <Choice
          key={name}
          label={`Filter by ${name}`}
          isBare
          value={chosen[name] || ANY}
          options={[...new Set([ANY, ...choices[name], chosen[name] || ANY])].map((id) => ({
            id,
            text: id === ANY ? `any ${name}` : name === "model" ? shortModel(id) : id,
          }))}
          onChange={(next) => onChange({ [name]: next === ANY ? "" : next })}
        />
      ))}
      {NAMES.some((name) => chosen[name]) ? (
        <Button className="button plain" onPress={() => onChange(NO_FILTER)}>
          Show all
        </Button>
      ) : null}
    </>
  );
}
