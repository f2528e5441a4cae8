// Orders the results of the search: answers to questions first, then guides. Lists of names and changes come last.
var Scorer = {
  first: ["questions/", "start/", "guides/", "integrators/"],
  last: ["python-api", "benchmarks", "reference/release-notes", "reference/rest-api"],
  score: ([page, , , , score]) => {
    const group = Scorer.first.findIndex((name) => page.startsWith(name));
    if (group >= 0) return score + 12 - 2 * group;
    return Scorer.last.some((name) => page.startsWith(name)) ? score - 8 : score;
  },

  // Sphinx's own values.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
