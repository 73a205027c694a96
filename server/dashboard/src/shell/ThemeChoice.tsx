import { Button } from "react-aria-components";
import { useObservable } from "../api/observable";
import { setTheme, theme, type Theme } from "./theme";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const SIGNS: Record<Theme, string> = { system: "◐", light: "○", dark: "●" };

export function ThemeChoice() {
  const current = useObservable(theme);
  return (
    <Button className="button plain" aria-label={`Colours: ${current}`} onPress={() => setTheme(NEXT[current])}>
      <span aria-hidden="true">{SIGNS[current]}</span>
    </Button>
  );
}
