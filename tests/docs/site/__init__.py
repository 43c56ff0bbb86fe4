"""The site: what stands under specs/, as HTML (specs/verify.md, "Site").

python -m tests.docs.site -o site
"""
