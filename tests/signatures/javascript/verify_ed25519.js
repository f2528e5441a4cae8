// Verify v1a signatures with node:crypto. Standard input: a list of {key, signed, signature}, the first a whpk_ key, the
// others base64; standard output: a list of true and false.
const crypto = require("crypto");

const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");
const results = JSON.parse(require("fs").readFileSync(0, "utf8")).map(({ key, signed, signature }) => {
  const raw = Buffer.from(key.replace(/^whpk_/, ""), "base64");
  const publicKey = crypto.createPublicKey({ key: Buffer.concat([SPKI_PREFIX, raw]), format: "der", type: "spki" });
  return crypto.verify(null, Buffer.from(signed, "base64"), publicKey, Buffer.from(signature, "base64"));
});
process.stdout.write(JSON.stringify(results));
