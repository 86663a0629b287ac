// Calls every operation of the API with the generated client, and says which answers are not as they should be.
import { MemoristClient, MemoristProblem } from "./client.js";

declare const process: { argv: string[]; exit(code: number): never };

const [url, token] = process.argv.slice(2) as [string, string];
const called = new Set<string>();
const client = new MemoristClient({ url, token });

/** The same object, which notes what is called of it and of its rooms. */
function watched<T extends object>(target: T, room: string): T {
  return new Proxy(target, {
    get(_, name: string) {
      const member = (target as Record<string, unknown>)[name];
      if (typeof member === "object" && member !== null) return watched(member, `${name}.`);
      called.add(room + name);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}
const memory = watched(client, "");

function expect(condition: unknown, what: string): asserts condition {
  if (!condition) throw new Error(`not as expected: ${what}`);
}

async function expectProblem(status: number, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (problem) {
    expect(problem instanceof MemoristProblem && problem.status === status, `${status}, got ${String(problem)}`);
    return;
  }
  throw new Error(`a problem ${status} was expected`);
}

async function remember(): Promise<void> {
  const first = await memory.add({ content: "We deploy with `make ship`", project: "api", tags: ["deploy"] });
  const { ids } = await memory.addMany({ items: ["The port is 80", { content: "The port is 443", kind: "fact" }] });
  const [old, newer] = ids as [string, string];
  expect((await memory.get(first.id)).content === first.content, "get");
  expect((await memory.getMany({ ids: [old, newer] })).memories.length === 2, "get several");
  expect((await memory.list({ project: ["api"] })).memories.length === 1, "list");
  const odd = "docs/a b?c#d%2F&é:日本";
  const kept = { content: "An id of any characters", id: odd, metadata: { n: 5 }, expires_at: "2100-01-01" };
  expect((await memory.add(kept)).expires_at?.startsWith("2100"), "expires_at");
  await expectProblem(409, () => memory.add({ ...kept, if_exists: "error" }));
  expect((await memory.get(odd)).id === odd, "an id of any characters");
  const numbered = { metadata: { n: { $gte: 5 } } };
  expect((await memory.list(numbered)).memories.length === 1, "list by metadata");
  expect((await memory.count(numbered)).count === 1, "count");
  await expectProblem(422, () => memory.forgetMany());
  expect((await memory.forgetMany({ ...numbered, hard: true })).count === 1, "forget many");
  await expectProblem(428, () => memory.update(first.id, { title: "x" }, {} as { "If-Match": string }));
  const changed = await memory.update(first.id, { title: "Deploying", kind: null }, { "If-Match": "*" });
  expect(changed.title === "Deploying", "update");
  expect((await memory.history(first.id)).items.length === 1, "history");
  expect((await memory.supersede(old, { by: newer })).superseded_by?.id === newer, "supersede");
  expect((await memory.links.replaced(newer)).items.length === 1, "replaced");
  expect((await memory.unsupersede(old)).superseded_by === null, "unsupersede");
  expect((await memory.links.add(first.id, { target: newer, kind: "needs" })).kind === "needs", "relate");
  expect((await memory.related(first.id)).items[0]?.relation?.kind === "needs", "related");
  expect((await memory.review.graph({ memory: first.id })).edges.length >= 1, "graph");
  await memory.links.remove(first.id, { target: newer, kind: "needs" });
  const fact = await memory.facts.add(first.id, { text: "ship needs a green build", confidence: 0.5 });
  expect((await memory.facts.list(first.id)).items.length === 1, "facts");
  expect((await memory.facts.reinforce(fact.id)).confidence > 0.5, "reinforce a fact");
  await memory.facts.remove(fact.id);
  expect((await memory.pin(first.id)).pinned && !(await memory.unpin(first.id)).pinned, "pin");
  expect((await memory.reinforce(first.id)).salience > 0.5, "reinforce");
  expect((await memory.deemphasize(newer)).salience < 0.5, "deemphasize");
  expect((await memory.searches.addFeedback(first.id, { good: true, query: "how to ship" })).good, "feedback");
  expect((await memory.searches.listFeedback()).items.length === 1, "list feedback");
  expect((await memory.review.merge(newer, { others: [old] })).id === newer, "merge");
  await memory.forget(first.id);
  await expectProblem(404, () => memory.get(first.id));
  expect((await memory.restore(first.id)).deleted_at === null, "restore");
  expect((await memory.purge()).count === 0, "purge");
  expect((await memory.sessions.contextOf(first.id)) === null, "no session");
}

async function find(): Promise<void> {
  const results = await memory.search({ query: "how do we deploy", explain: true, facets: ["project"] });
  expect(results.hits[0]?.memory.project === "api" && results.plan !== null, "search");
  const compared = await memory.review.compare({ query: "deploy", profiles: ["balanced", "fast"] });
  expect(compared.answers.map((answer) => answer.profile).join() === "balanced,fast", "compare");
  expect((await memory.documents.search({ query: "deploy" })).hits.length === 0, "documents");
  expect((await memory.facets({ fields: ["project"] }))["project"]?.["api"] === 1, "facets");
  expect((await memory.suggest({ query: "deplyo" })).suggestion !== undefined, "suggest");
  expect((await memory.context({ message: "deploy", min_relevance: 0 })).context.includes("make ship"), "context");
  expect((await memory.briefing()).context.includes("port"), "briefing");
  expect((await memory.timeline()).memories.length === 3, "timeline");
  expect((await memory.lenses.set("work", { filters: { project: "api" } })).name === "work", "set a lens");
  expect((await memory.lenses.list()).items.length === 1 && (await memory.lenses.get("work")).name === "work", "lenses");
  await memory.lenses.remove("work");
  expect((await memory.review.duplicates()).items.length === 0, "duplicates");
  expect((await memory.review.list({ kind: "contradictions" })).looked_at > 0, "review");
  expect((await memory.review.growth()).days.length >= 1, "growth");
}

async function converse(): Promise<void> {
  const session = await memory.sessions.start({ project: "api" });
  await memory.sessions.summarise(session.id, { summary: "a talk" });
  await memory.sessions.forget(session.id);
  await memory.sessions.restore(session.id);
  expect((await memory.sessions.get(session.id)).summary === "a talk", "session");
  await memory.sessions.addTurn("talk", { role: "user", text: "where is the key?" });
  expect((await memory.sessions.turns("chat:talk")).memories[0]?.content === "where is the key?", "turns");
  await memory.search({ query: "key", record: "log", record_session: session.id });
  expect((await memory.searches.list({ session: session.id })).recalls[0]?.query === "key", "recalls");
  expect((await memory.searches.clear()).count === 1, "clear recalls");
  expect((await memory.sessions.end(session.id)).ended_at !== null, "end");
  expect((await memory.sessions.list({ limit: 1 })).cursor !== null, "sessions");
}

async function keepFiles(): Promise<void> {
  await memory.files.create({ path: "/a", text: "one" });
  expect((await memory.files.replace({ path: "/a", text: "two", before: "one" })).text === "two", "edit");
  await expectProblem(412, () => memory.files.replace({ path: "/a", text: "three", before: "one" }));
  expect((await memory.files.move({ path: "/a", to: "/b" })).count === 1, "move");
  expect((await memory.files.list({ path: "/" })).items[0]?.path === "/b", "files");
  expect((await memory.files.forget({ path: "/b" })).count === 1, "forget files");
  expect((await memory.documents.list()).documents.length === 0, "documents");
  await expectProblem(404, () => memory.documents.get("none"));
  await expectProblem(404, () => memory.documents.chunks("none"));
  await expectProblem(404, () => memory.documents.find({ path: "/none" }));
  expect((await memory.documents.remove({ path: "/none" })).count === 0, "unindex");
}

async function lookAfter(): Promise<void> {
  const lines = await (await memory.transfer.export({ vectors: false })).text();
  const report = await memory.transfer.import({ file: new Blob([lines]) });
  expect(report.added === 0 && report.known > 0, "export and import");
  expect((await memory.server.importSample()).added > 0, "sample");
  expect((await memory.stats()).stats.memories > 10, "stats");
  expect((await memory.check()).ok && (await memory.repair()).ok, "check");
  expect((await memory.server.models()).items.length > 0 && (await memory.server.profiles()).items.length > 0, "models");
  expect((await memory.server.evalRuns()).items.length === 0, "runs");
  expect((await memory.server.settings()).settings["namespace"] === "default", "settings");
  expect(!(await memory.server.access()).read_only, "access");
}

async function follow(): Promise<void> {
  const events = memory.changes();
  const hello = (await events.next()).value;
  expect(hello?.event === "hello", "the first event");
  const added = await memory.add({ content: "something new" });
  const change = (await events.next()).value;
  expect(change?.new["memories"]?.includes(added.id), "the change");
  await events.return(undefined);
  const missed = (await memory.changes(hello.position).next()).value;
  expect(missed?.new["memories"]?.includes(added.id), "what was missed");
}

for (const part of [remember, find, converse, keepFiles, lookAfter, follow]) await part();
const rooms = Object.entries(client).map(([room, holder]) => [`${room}.`, holder] as [string, object]);
const all = [["", client] as [string, object], ...rooms].flatMap(([room, holder]) =>
  Object.getOwnPropertyNames(Object.getPrototypeOf(holder)).filter((name) => name !== "constructor").map((name) => room + name),
);
const missing = all.filter((name) => !called.has(name));
expect(missing.length === 0, `these operations are not called: ${missing.join(", ")}`);
console.log(`${all.length} operations`);
process.exit(0);
