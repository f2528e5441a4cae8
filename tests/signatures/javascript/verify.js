// Verify requests with the official library. Standard input: a list of {secret, headers, body}; standard output: a list
// of errors, empty where the request is genuine.
const { Webhook } = require("standardwebhooks");

const requests = JSON.parse(require("fs").readFileSync(0, "utf8"));
const errors = requests.map(({ secret, headers, body }) => {
  try {
    new Webhook(secret).verify(body, headers);
    return "";
  } catch (error) {
    return String(error.message || error);
  }
});
process.stdout.write(JSON.stringify(errors));
