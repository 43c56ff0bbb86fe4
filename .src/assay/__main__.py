from assay.verify.cli import main

main()
