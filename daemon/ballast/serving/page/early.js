// Asks for what the first screen needs while the modules are still on their way; `read` of common.js takes the answers.
globalThis.early ??= new Map(["status", "config", ...(/^(#(overview|wall).*)?$/.test(location.hash) ? ["fleet/loads", "fleet", "overview", "history"] : [])]
  .map(name => {
    const answer = fetch(`/api/v1/${name}`, { cache: "no-cache", signal: AbortSignal.timeout(15000) });
    answer.catch(() => {});
    return [`/api/v1/${name}`, answer];
  }));
