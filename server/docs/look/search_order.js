// The order of search results: guides and concepts come before reference pages, which repeat every word.
var Scorer = {
  score: ([name, , , , score]) => score + (/^(start|concepts|using)\//.test(name) ? 8 : /^reference\//.test(name) ? -8 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
