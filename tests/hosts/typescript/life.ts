// A webhook's life by a client that is generated from the OpenAPI document. Prints the last delivery.
// Arguments: the address of the service, an API key, and the URL of a receiver, or "" to delete the webhook.

import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };
const [baseUrl, key, receiver] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

/** Return the data of an answer. Throw its error. */
async function ok<Data>(request: Promise<{ data?: Data; error?: unknown; response: Response }>): Promise<Data> {
  const { data, error, response } = await request;
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${JSON.stringify(error)}`);
  return data as Data;
}

/** Ask until the answer is as expected. */
async function until<Data>(ask: () => Promise<Data>, isExpected: (found: Data) => boolean): Promise<Data> {
  for (let tries = 0; tries < 100; tries++) {
    const found = await ask();
    if (isExpected(found)) return found;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  throw new Error("It took too long.");
}

async function lastDelivery() {
  const { results } = await until(
    () => ok(client.GET("/v1/deliveries")),
    ({ results }) => results[0].finished_at !== null,
  );
  return results[0].id;
}

/** Create a webhook, wait until it is verified, pause and resume it, send a test event and redeliver it. */
async function live(url: string) {
  const created = await ok(client.POST("/v1/webhooks", { body: { url, events: ["order.paid"] } }));
  const path = { webhook_id: created.id };
  await until(
    () => ok(client.GET("/v1/webhooks/{webhook_id}", { params: { path } })),
    (webhook) => webhook.status === "active",
  );
  const paused = await ok(client.POST("/v1/webhooks/{webhook_id}/pause", { params: { path } }));
  const resumed = await ok(client.POST("/v1/webhooks/{webhook_id}/resume", { params: { path } }));
  if (paused.paused_at === null || resumed.paused_at !== null) throw new Error("It was not paused and resumed.");
  await ok(client.POST("/v1/webhooks/test", { body: { webhook_id: created.id, event_type: "order.paid" } }));
  const params = { path: { delivery_id: await lastDelivery() } };
  await ok(client.POST("/v1/deliveries/{delivery_id}/redeliver", { params }));
}

async function end() {
  for (const { id } of (await ok(client.GET("/v1/webhooks"))).results) {
    await ok(client.DELETE("/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } }));
  }
}

if (receiver) await live(receiver);
const path = { delivery_id: await lastDelivery() };
console.log(JSON.stringify(await ok(client.GET("/v1/deliveries/{delivery_id}", { params: { path } }))));
if (!receiver) await end();
