from assay.verify.app.cli import main

main()
