/** Requests to the server: JSON in and out, errors as problem details (RFC 9457), and whether the server answers. */

import { asOf, connection } from "./app-state.js";

const BASE = "api/v1/";

/** An answer of the server that is an error, or the lack of any answer. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, problem?: object}} [details] status 0: the server did not answer
   */
  constructor(message, { status = 0, problem = {} } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.problem = problem;
  }

  /** True if the server could not be reached at all, so that the request may be sent again later. */
  get isLost() {
    return this.status === 0;
  }

  /** True if somebody else has changed the same thing in the meantime. */
  get isConflict() {
    return this.status === 412 || this.status === 409;
  }
}

/**
 * @typedef {object} RequestOptions
 * @property {unknown} [body]  sent as JSON
 * @property {FormData} [form]  sent as multipart
 * @property {Record<string, unknown>} [query]  parameters; null, undefined and "" are left out
 * @property {AbortSignal} [signal]
 * @property {string} [ifMatch]  the ETag that the thing must still have
 * @property {string} [idempotencyKey]  under which the server does the same write once only
 */

/**
 * Send a request and return the body of the answer.
 * @param {string} method
 * @param {string} path  below /api/v1
 * @param {RequestOptions} [options]
 * @returns {Promise<any>}
 */
export async function request(method, path, options = {}) {
  return (await requestWithTag(method, path, options)).body;
}

/**
 * Send a request and return the body of the answer with its ETag.
 * @param {string} method
 * @param {string} path
 * @param {RequestOptions} [options]
 * @returns {Promise<{body: any, etag: string | null}>}
 */
export async function requestWithTag(method, path, options = {}) {
  const response = await send(method, path, options);
  const body = await readBody(response);
  if (!response.ok) throw asError(response, body);
  return { body, etag: response.headers.get("ETag") };
}

/** @param {string} path @param {RequestOptions} [options] */
export const get = (path, options) => request("GET", path, options);
/** Ask for something with a body, which changes nothing. @param {string} path @param {unknown} body @param {RequestOptions} [options] */
export const ask = (path, body, options) => request("POST", path, { ...options, body });
/** Write something, once. @param {string} path @param {unknown} [body] @param {RequestOptions} [options] */
export const post = (path, body, options) => request("POST", path, { idempotencyKey: newKey(), ...options, body });

/**
 * Exchange the server's token for the cookie of this page.
 * @param {string} token
 */
export async function logIn(token) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch("login", { method: "POST", headers, body: JSON.stringify({ token }) }).catch(() => null);
  if (!response) throw new ApiError("The server does not answer.");
  if (!response.ok) throw new ApiError("This is not the token of the server.", { status: response.status });
  connection.set("ok");
}

/** End the cookie of this page, also for whoever has a copy of it. */
export async function logOut() {
  const response = await fetch("logout", { method: "POST" }).catch(() => null);
  if (!response?.ok) throw new ApiError("The server does not answer.");
}

/**
 * Return the parameters that set a request to the time the page looks at.
 * @returns {{as_of?: string}}
 */
export function timeParameters() {
  const moment = asOf.get();
  return moment ? { as_of: moment } : {};
}

/** Return a new key under which the server does a write once, however often it is sent. */
export function newKey() {
  return crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4))).join("-");
}

/**
 * Return the address of an operation, for links that download.
 * @param {string} path
 * @param {Record<string, unknown>} [query]
 */
export function addressOf(path, query = {}) {
  const url = new URL(BASE + path.replace(/^\//, ""), document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") url.searchParams.append(name, String(each));
    }
  }
  return url.href;
}

async function send(method, path, { body, form, query, signal, ifMatch, idempotencyKey }) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (ifMatch) headers["If-Match"] = ifMatch;
  if (idempotencyKey && method !== "GET") headers["Idempotency-Key"] = idempotencyKey;
  try {
    const response = await fetch(addressOf(path, query), {
      method,
      headers,
      body: form ?? (body === undefined ? undefined : JSON.stringify(body)),
      signal,
      credentials: "same-origin",
      cache: "no-store",
    });
    connection.set(response.status === 401 ? "denied" : "ok");
    return response;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    connection.set("lost");
    throw new ApiError("The server does not answer.");
  }
}

async function readBody(response) {
  if (response.status === 204) return null;
  const type = response.headers.get("Content-Type") ?? "";
  try {
    return type.includes("json") ? await response.json() : await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The answer of the server broke off.", { status: response.ok ? 0 : response.status });
  }
}

function asError(response, body) {
  const problem = body && typeof body === "object" ? body : {};
  const said = problem.detail || problem.title || (typeof body === "string" && body.slice(0, 300));
  return new ApiError(said || `The server answered ${response.status}.`, { status: response.status, problem });
}
