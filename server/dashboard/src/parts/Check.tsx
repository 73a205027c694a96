import { Checkbox } from "react-aria-components";

interface Props {
  readonly text: string;
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
}

export function Check({ text, isOn, onChange }: Props) {
  return (
    <Checkbox className="check" isSelected={isOn} onChange={onChange}>
      <span className="box" aria-hidden="true" />
      {text}
    </Checkbox>
  );
}
