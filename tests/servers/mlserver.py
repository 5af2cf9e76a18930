"""MLServer, of the Open Inference Protocol, in an environment of its own: it serves both arms of ``cooccurrence``."""

import json
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from servers import free_port, missing, running

HOME = Path(os.environ.get("RANKWATCH_MLSERVER", Path(sys.prefix).parent / "mlserver"))
"""A virtual environment with mlserver, made by ``make mlserver``."""
MODEL = """
from cooccurrence import recommend
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceResponse

class Recommender(MLModel):
    async def predict(self, asked):
        tensors = zip(("item_ids", "scores"), recommend(self.name, StringCodec.decode_input(asked.inputs[0])))
        outputs = [NumpyCodec.encode_output(name, tensor) for name, tensor in tensors]
        return InferenceResponse(model_name=self.name, outputs=outputs)
"""


@contextmanager
def running_mlserver():
    """Its address; the models are called ``baseline`` and ``candidate``."""
    if not (HOME / "bin/mlserver").exists():
        missing(f"MLServer is not installed in {HOME}: run make mlserver")
    home = Path(tempfile.mkdtemp(prefix="rankwatch-mlserver-"))
    shutil.copy(Path(__file__).with_name("cooccurrence.py"), home)
    (home / "model.py").write_text(MODEL)
    for arm in ("baseline", "candidate"):
        (home / arm).mkdir()
        (home / arm / "model-settings.json").write_text(
            json.dumps({"name": arm, "implementation": "model.Recommender"})
        )
    ports = {f"{name}_port": free_port() for name in ("http", "grpc", "metrics")}
    (home / "settings.json").write_text(
        json.dumps({"host": "127.0.0.1", "parallel_workers": 0, **ports})
    )
    url = f"http://127.0.0.1:{ports['http_port']}"
    command = ["env", f"PYTHONPATH={home}", f"{HOME}/bin/mlserver", "start", str(home)]
    with running(command, lambda: urlopen(f"{url}/v2/health/ready").close(), home):
        yield url
