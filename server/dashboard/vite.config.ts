import { readFileSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Tests that change the time zone, the timers or a global of their process, which the next file would find changed.
const CHANGES_PROCESS = /process\.env|useFakeTimers|stubGlobal|spyOn|vi\.mock/;
const ALONE = readdirSync(resolve(import.meta.dirname, "tests"))
  .map((name) => `tests/${name}`)
  .filter((path) => CHANGES_PROCESS.test(readFileSync(resolve(import.meta.dirname, path), "utf8")));

// The nonce is put in by the server, anew for each answer; see server/aliquot/api/dashboard.py.
export default defineConfig({
  plugins: [react()],
  html: { cspNonce: "ALIQUOT_NONCE" },
  build: {
    outDir: "../aliquot/dashboard_dist",
    emptyOutDir: true,
    // A font or worker as data: in a script would need a wider policy than 'self'.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 4000,
    rollupOptions: {
      input: {
        dashboard: resolve(import.meta.dirname, "index.html"),
        graphiql: resolve(import.meta.dirname, "graphiql.html"),
      },
      // GraphiQL's modules carry directives for a compiler that has already run.
      onwarn: (warning, warn) => {
        if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning);
      },
    },
  },
  test: {
    // A process per file takes 10 s of processor time more.
    projects: [
      { extends: true, test: { name: "units", exclude: ["node_modules", ...ALONE], isolate: false } },
      { extends: true, test: { name: "alone", include: ALONE } },
    ],
  },
  server: { proxy: { "/graphql": { target: "http://127.0.0.1:8090", ws: true }, "/login": "http://127.0.0.1:8090" } },
});
