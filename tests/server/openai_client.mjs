// The official OpenAI client for JavaScript against a server whose model says "Hello world" to "h".
// usage: node openai_client.mjs BASE_URL KEY
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 30000 });
const asked = { model: "script", messages: [{ role: "user", content: "h" }], temperature: 0 };

const answer = await client.chat.completions.create(asked);
assert.equal(answer.choices[0].message.content, "Hello world");
assert.equal(answer.choices[0].finish_reason, "stop");
assert.equal(answer.usage.total_tokens, 6);

const stream = await client.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } });
let text = "";
let usage = null;
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, "Hello world");
assert.equal(usage.completion_tokens, 5);

const gathered = await client.chat.completions.stream(asked).finalChatCompletion();
assert.equal(gathered.choices[0].message.content, "Hello world");

const completion = await client.completions.create({ model: "script", prompt: "h", temperature: 0 });
assert.equal(completion.choices[0].text, "Hello world");

const ids = [];
for await (const card of client.models.list()) ids.push(card.id);
assert.deepEqual(ids, ["script"]);

await assert.rejects(client.chat.completions.create({ ...asked, model: "none" }), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ ...asked, messages: [] }), OpenAI.BadRequestError);
const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);

// Leaving a stream ends the request.
const left = await client.chat.completions.create({ ...asked, stream: true });
for await (const chunk of left) {
  assert.equal(chunk.object, "chat.completion.chunk");
  break;
}
console.log("all good");
