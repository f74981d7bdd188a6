"""Where statements that are reported come from: the paper's text was not at hand."""

ABSTRACT = "the abstract, as a summary quotes it"
ACCOUNTS = "Known from accounts only, which may not be the paper's own words."
