import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { dropRepeatedClicks } from "./api/clicks";
import { followEvents } from "./api/feed";
import { App } from "./App";
import { applyTheme, followTheme } from "./shell/theme";
import "./styles/index.css";
import "./shell/shell.css";
import "./cluster/cluster.css";
import "./queue/queue.css";
import "./session/session.css";
import "./log/log.css";
import "./submit/submit.css";
import "./usage/usage.css";
import "./admin/admin.css";

applyTheme();
followTheme();
dropRepeatedClicks();
void followEvents();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
