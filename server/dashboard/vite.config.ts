import { resolve } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

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
  server: { proxy: { "/graphql": { target: "http://127.0.0.1:8090", ws: true }, "/login": "http://127.0.0.1:8090" } },
});
