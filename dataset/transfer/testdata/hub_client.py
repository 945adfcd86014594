"""Reads a repository that pinch pushed and pushes one of its own, with huggingface_hub. Usage: hub_client.py SOURCE TARGET."""
import sys

from huggingface_hub import HfApi, snapshot_download

source, target = sys.argv[1:]
snapshot_download("lab/ours", repo_type="dataset", revision="v3.0", local_dir=target)
api = HfApi()
files = {f.path for f in api.list_repo_tree("lab/ours", repo_type="dataset", recursive=True) if hasattr(f, "size")}
assert "meta/info.json" in files and "README.md" in files, files
api.create_repo("lab/theirs", repo_type="dataset", private=True)
api.upload_folder(repo_id="lab/theirs", repo_type="dataset", folder_path=source)
