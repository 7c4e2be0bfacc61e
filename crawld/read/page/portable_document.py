"""The text of a PDF, where the extra `pdf` is installed.

Imported in the template of the workers, so that a worker can read a PDF without opening a file.
"""

import importlib
import importlib.util
import io
import logging

_LIBRARY = "pypdf"
pypdf = importlib.import_module(_LIBRARY) if importlib.util.find_spec(_LIBRARY) is not None else None

MAX_PAGES = 100
MAX_CHARACTERS = 2_000_000
logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # says what is wrong with foreign files, line by line


def pdf_blocks(body: bytes) -> list[str] | None:
    """The lines of a PDF; None where it has no text that can be read within the bounds."""
    if pypdf is None:
        return None
    try:
        reader = pypdf.PdfReader(io.BytesIO(body))
        if len(reader.pages) > MAX_PAGES:
            return None
        blocks: list[str] = []
        characters = 0
        for page in reader.pages:
            text = page.extract_text()
            characters += len(text)
            if characters > MAX_CHARACTERS:
                return None
            blocks += (" ".join(line.split()) for line in text.splitlines() if line.strip())
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a broken or hostile file fails in any of the library's parts; its bytes remain
        return None
    return blocks or None
