import { env } from "node:process";
import { defineConfig } from "vite";

// While developing, everything but the page goes to a real `hitl serve`; it must not see our origin, which is foreign to it.
const server = env["HITL_URL"] ?? "http://127.0.0.1:8000";
const paths = ["/sessions", "/interrupts", "/events", "/me", "/sign-in", "/sign-out", "/audit", "/health", "/openapi.json"];
const proxy = Object.fromEntries(
  paths.map((path) => [
    path,
    { target: server, changeOrigin: true, configure: (it: any) => it.on("proxyReq", (request: any) => request.removeHeader("origin")) },
  ]),
);

export default defineConfig(({ command, isPreview }) => ({
  base: command === "build" || isPreview ? "/ui/" : "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  server: { host: "127.0.0.1", proxy },
  preview: { host: "127.0.0.1", proxy },
  build: {
    // Committed, so that building the wheel needs no node; names without digests, so that the server can name them.
    outDir: "../src/server/assets/ui",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    target: "es2022",
    rollupOptions: {
      output: {
        entryFileNames: "inbox.js",
        chunkFileNames: "[name].js",
        assetFileNames: "inbox[extname]",
        // After minification, which drops it otherwise.
        postBanner: "/*! Contains Preact, MIT licence, Copyright (c) 2015-present Jason Miller */",
      },
    },
  },
}));
