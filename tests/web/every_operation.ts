// Calls every operation of the API with the generated client, and says which answers are not as they should be.
import { MemoristClient, MemoristProblem } from "./client.js";

declare const process: { argv: string[]; exit(code: number): never };

const [url, token] = process.argv.slice(2) as [string, string];
const called = new Set<string>();
const client = new MemoristClient({ url, token });
const memory = new Proxy(client, {
  get(target, name: string) {
    called.add(name);
    const method = (target as unknown as Record<string, unknown>)[name];
    return typeof method === "function" ? method.bind(target) : method;
  },
});

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
  const first = await memory.addMemory({ content: "We deploy with `make ship`", project: "api", tags: ["deploy"] });
  const { ids } = await memory.addMemories({ items: ["The port is 80", { content: "The port is 443", kind: "fact" }] });
  const [old, newer] = ids as [string, string];
  expect((await memory.getMemory(first.id)).content === first.content, "get");
  expect((await memory.getMemories({ ids: [old, newer] })).memories.length === 2, "get several");
  expect((await memory.listMemories({ project: ["api"] })).memories.length === 1, "list");
  const odd = "docs/a b?c#d%2F&é:日本";
  const kept = { content: "An id of any characters", id: odd, metadata: { n: 5 }, expires_at: "2100-01-01" };
  expect((await memory.addMemory(kept)).expires_at?.startsWith("2100"), "expires_at");
  await expectProblem(409, () => memory.addMemory({ ...kept, if_exists: "error" }));
  expect((await memory.getMemory(odd)).id === odd, "an id of any characters");
  const numbered = { metadata: { n: { $gte: 5 } } };
  expect((await memory.listMemories(numbered)).memories.length === 1, "list by metadata");
  expect((await memory.count(numbered)).count === 1, "count");
  await expectProblem(422, () => memory.forgetMany());
  expect((await memory.forgetMany({ ...numbered, hard: true })).count === 1, "forget many");
  await expectProblem(428, () => memory.updateMemory(first.id, { title: "x" }, {} as { "If-Match": string }));
  const changed = await memory.updateMemory(first.id, { title: "Deploying", kind: null }, { "If-Match": "*" });
  expect(changed.title === "Deploying", "update");
  expect((await memory.history(first.id)).items.length === 1, "history");
  expect((await memory.supersede(old, { by: newer })).superseded_by?.id === newer, "supersede");
  expect((await memory.replaced(newer)).items.length === 1, "replaced");
  expect((await memory.unsupersede(old)).superseded_by === null, "unsupersede");
  expect((await memory.relate(first.id, { target: newer, kind: "needs" })).kind === "needs", "relate");
  expect((await memory.related(first.id)).items[0]?.relation?.kind === "needs", "related");
  expect((await memory.graph({ memory: first.id })).edges.length >= 1, "graph");
  await memory.unrelate(first.id, { target: newer, kind: "needs" });
  const fact = await memory.addFact(first.id, { text: "ship needs a green build", confidence: 0.5 });
  expect((await memory.listFacts(first.id)).items.length === 1, "facts");
  expect((await memory.reinforceFact(fact.id)).confidence > 0.5, "reinforce a fact");
  await memory.removeFact(fact.id);
  expect((await memory.pin(first.id)).pinned && !(await memory.unpin(first.id)).pinned, "pin");
  expect((await memory.reinforce(first.id)).salience > 0.5, "reinforce");
  expect((await memory.deemphasize(newer)).salience < 0.5, "deemphasize");
  expect((await memory.feedback(first.id, { good: true, query: "how to ship" })).good, "feedback");
  expect((await memory.listFeedback()).items.length === 1, "list feedback");
  expect((await memory.merge(newer, { others: [old] })).id === newer, "merge");
  await memory.forgetMemory(first.id);
  await expectProblem(404, () => memory.getMemory(first.id));
  expect((await memory.restoreMemory(first.id)).deleted_at === null, "restore");
  expect((await memory.purge()).count === 0, "purge");
  expect((await memory.sessionOf(first.id)) === null, "no session");
}

async function find(): Promise<void> {
  const results = await memory.search({ query: "how do we deploy", explain: true, facets: ["project"] });
  expect(results.hits[0]?.memory.project === "api" && results.plan !== null, "search");
  const compared = await memory.compare({ query: "deploy", profiles: ["balanced", "fast"] });
  expect(compared.answers.map((answer) => answer.profile).join() === "balanced,fast", "compare");
  expect((await memory.searchDocuments({ query: "deploy" })).hits.length === 0, "documents");
  expect((await memory.facets({ fields: ["project"] }))["project"]?.["api"] === 1, "facets");
  expect((await memory.suggest({ query: "deplyo" })).suggestion !== undefined, "suggest");
  expect((await memory.context({ message: "deploy", min_relevance: 0 })).context.includes("make ship"), "context");
  expect((await memory.briefing()).context.includes("port"), "briefing");
  expect((await memory.timeline()).memories.length === 3, "timeline");
  expect((await memory.setLens("work", { filters: { project: "api" } })).name === "work", "set a lens");
  expect((await memory.listLenses()).items.length === 1 && (await memory.getLens("work")).name === "work", "lenses");
  await memory.removeLens("work");
  expect((await memory.duplicates()).items.length === 0, "duplicates");
  expect((await memory.review({ kind: "contradictions" })).looked_at > 0, "review");
  expect((await memory.growth()).days.length >= 1, "growth");
}

async function converse(): Promise<void> {
  const session = await memory.startSession({ project: "api" });
  await memory.summariseSession(session.id, { summary: "a talk" });
  await memory.forgetSession(session.id);
  await memory.restoreSession(session.id);
  expect((await memory.getSession(session.id)).summary === "a talk", "session");
  await memory.addTurn("talk", { role: "user", text: "where is the key?" });
  expect((await memory.listTurns("chat:talk")).memories[0]?.content === "where is the key?", "turns");
  await memory.search({ query: "key", record: "log", record_session: session.id });
  expect((await memory.listRecalls({ session: session.id })).recalls[0]?.query === "key", "recalls");
  expect((await memory.clearRecalls()).count === 1, "clear recalls");
  expect((await memory.endSession(session.id)).ended_at !== null, "end");
  expect((await memory.listSessions({ limit: 1 })).cursor !== null, "sessions");
}

async function keepFiles(): Promise<void> {
  await memory.createFile({ path: "/a", text: "one" });
  expect((await memory.editFile({ path: "/a", text: "two", before: "one" })).text === "two", "edit");
  await expectProblem(412, () => memory.editFile({ path: "/a", text: "three", before: "one" }));
  expect((await memory.moveFiles({ path: "/a", to: "/b" })).count === 1, "move");
  expect((await memory.listFiles({ path: "/" })).items[0]?.path === "/b", "files");
  expect((await memory.forgetFiles({ path: "/b" })).count === 1, "forget files");
  expect((await memory.listDocuments()).documents.length === 0, "documents");
  await expectProblem(404, () => memory.getDocument("none"));
  await expectProblem(404, () => memory.listChunks("none"));
  await expectProblem(404, () => memory.findDocument({ path: "/none" }));
  expect((await memory.unindex({ path: "/none" })).count === 0, "unindex");
}

async function lookAfter(): Promise<void> {
  const lines = await (await memory.export({ vectors: false })).text();
  const report = await memory.importFile({ file: new Blob([lines]) });
  expect(report.added === 0 && report.known > 0, "export and import");
  expect((await memory.importSample()).added > 0, "sample");
  expect((await memory.stats()).stats.memories > 10, "stats");
  expect((await memory.check()).ok && (await memory.repair()).ok, "check");
  expect((await memory.listModels()).items.length > 0 && (await memory.listProfiles()).items.length > 0, "models");
  expect((await memory.listEvalRuns()).items.length === 0, "runs");
  expect((await memory.settings()).settings["namespace"] === "default", "settings");
  expect(!(await memory.access()).read_only, "access");
}

async function follow(): Promise<void> {
  const events = memory.events();
  const hello = (await events.next()).value;
  expect(hello?.event === "hello", "the first event");
  const added = await memory.addMemory({ content: "something new" });
  const change = (await events.next()).value;
  expect(change?.new["memories"]?.includes(added.id), "the change");
  await events.return(undefined);
  const missed = (await memory.events(hello.position).next()).value;
  expect(missed?.new["memories"]?.includes(added.id), "what was missed");
}

for (const part of [remember, find, converse, keepFiles, lookAfter, follow]) await part();
const all = Object.getOwnPropertyNames(MemoristClient.prototype).filter((name) => name !== "constructor");
const missing = all.filter((name) => !called.has(name));
expect(missing.length === 0, `these operations are not called: ${missing.join(", ")}`);
console.log(`${all.length} operations`);
process.exit(0);
