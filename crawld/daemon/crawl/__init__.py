"""One crawl of a page: send the request, judge the answer, record it. Front door: `page_crawl.py`."""
