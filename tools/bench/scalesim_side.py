"""Processor seconds that SCALE-Sim 3 takes for the timeline of a 512^3 GEMM on a 128x128 array."""

import contextlib
import io
import tempfile
import time
from pathlib import Path

from scalesim.scale_sim import scalesim

CONFIG = """
[general]
run_name = gemm
[architecture_presets]
ArrayHeight = 128
ArrayWidth = 128
IfmapSramSzkB = 8192
FilterSramSzkB = 8192
OfmapSramSzkB = 2048
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
Bandwidth = 512
ReadRequestBuffer = 512
WriteRequestBuffer = 512
[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""

with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    (folder / "scale.cfg").write_text(CONFIG)
    (folder / "gemm.csv").write_text("Layer,M,N,K,\ngemm,512,512,512,\n")
    (folder / "layout.csv").write_text(
        "Layer name," + "f," * 20 + "\ngemm," + "1," * 20 + "\n"
    )
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        simulator = scalesim(
            save_disk_space=False,
            verbose=False,
            config=str(folder / "scale.cfg"),
            topology=str(folder / "gemm.csv"),
            layout=str(folder / "layout.csv"),
            input_type_gemm=True,
        )
        simulator.run_scale(top_path=str(folder))
    seconds = time.process_time() - start
    assert any(folder.rglob("*TRACE*.csv")), "no trace was written"
print(seconds)
