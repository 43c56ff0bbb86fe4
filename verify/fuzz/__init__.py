"""Campaigns: random programs, judged, failures made simple and kept (specs/verify.md, "Fuzzing"; `assay fuzz`).

campaign = Campaign(Plan("onnxruntime", Recipe(), examples=1000), Corpus(Path("corpus")))
campaign.run(Pool(jobs=2))
campaign.new            # the failures that the corpus did not have
"""
