// Orders the results of the search: answers to questions first, then guides. Lists of names and changes come last.
var Scorer = {
  added: { "questions/": 20, "start/": 8, "guides/": 6, "python-api": -8, benchmarks: -8, "reference/release": -8 },
  score: ([page, , , , score]) => {
    const start = Object.keys(Scorer.added).find((each) => page.startsWith(each));
    return score + (start ? Scorer.added[start] : 0);
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
