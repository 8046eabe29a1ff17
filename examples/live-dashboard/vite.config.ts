import { createHmac } from "node:crypto";

import { defineConfig, type Plugin } from "vite";

const server = process.env.WAVEHOUSE_URL ?? "http://localhost:8080";

/**
 * Stands for the part of your own backend that knows who is signed in. It makes
 * tokens of a minute; the page asks for the next one by itself.
 */
function tokens(secret: string | undefined): Plugin {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return {
    name: "tokens",
    configureServer({ middlewares }) {
      middlewares.use("/token", (_, answer) => {
        if (secret === undefined) {
          answer.end(); // no token: the server's default_role
          return;
        }
        const text = `${part({ alg: "HS256", typ: "JWT" })}.${part({ role: "viewer", exp: Math.floor(Date.now() / 1000) + 60 })}`;
        answer.end(`${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`);
      });
    },
  };
}

// The page and the API have one origin, as behind a proxy of yours: no CORS.
export default defineConfig({
  plugins: [tokens(process.env.WH_AUTH_JWT_SECRET)],
  // The client lies in this repository, beside a React of its own.
  resolve: { dedupe: ["react"] },
  server: { proxy: { "/v1": server } },
});
