"""A test double of the Hub: the part of its HTTP protocol that pushing, loading and cards use, in memory, on loopback.

It refuses what the Hub refuses: writing without a token, unknown tokens, private repositories without a token, LFS
objects that are not what their hash and size say, and cards whose metadata is not right.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from huggingface_hub import ModelCard

TOKEN = "hf_writer"
USER = "tester"


@dataclass
class Repository:
    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, files: dict[str, bytes]) -> str:
        parent = self.branches.get(branch, "")
        digest = hashlib.sha1(parent.encode())
        for path, content in sorted(files.items()):
            digest.update(path.encode() + hashlib.sha256(content).digest())
        self.branches[branch] = digest.hexdigest()
        self.commits[digest.hexdigest()] = files
        return digest.hexdigest()

    def resolve(self, revision: str) -> str:
        return self.branches.get(revision, revision)


class HubError(Exception):
    def __init__(self, status: int, message: str, code: str = "", **content: object):
        super().__init__(message)
        self.status, self.message, self.code, self.content = status, message, code, content


class HubDouble:
    """Context manager that serves on a free port; `url` is for `HF_ENDPOINT`."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []

    def __enter__(self) -> HubDouble:
        hub = self

        class Handler(_Handler):
            double = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        repository = self.repositories[name]
        return repository.commits[repository.resolve(revision)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    double: HubDouble

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def log_message(self, format: str, *args: object) -> None:
        self.double.requests.append(format % args)

    def _answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self.user = self._user()
            status, headers, content = 200, {}, self._route(unquote(urlsplit(self.path).path))
            if isinstance(content, tuple):
                headers, content = content
        except HubError as error:
            status, content = error.status, {"error": error.message, **error.content}
            headers = {"X-Error-Code": error.code, "X-Error-Message": error.message}
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
            headers["Content-Type"] = "application/json"
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _user(self) -> str | None:
        authorization = self.headers.get("Authorization")
        # Uploads go to storage, which takes signed addresses instead of tokens.
        if authorization is None or self.command == "PUT":
            return None
        if authorization != f"Bearer {TOKEN}":
            raise HubError(401, "Invalid credentials in Authorization header")
        return USER

    def _route(self, path: str) -> object:
        for method, pattern, answer in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method in (self.command, "GET" if self.command == "HEAD" else ""):
                return answer(self, *match.groups())
        raise HubError(404, f"the double knows no {self.command} {path}")

    def _repository(self, name: str, write: bool = False) -> Repository:
        repository = self.double.repositories.get(name)
        if write and self.user is None:
            raise HubError(401, "Invalid username or password.")
        if repository is None or (repository.private and self.user is None):
            raise HubError(404 if self.user else 401, "Repository not found", "RepoNotFound")
        return repository

    def _commit_of(self, name: str, revision: str) -> tuple[str, dict[str, bytes]]:
        repository = self._repository(name)
        sha = repository.resolve(revision)
        if sha not in repository.commits:
            raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return sha, repository.commits[sha]

    def whoami(self) -> object:
        if self.user is None:
            raise HubError(401, "Invalid username or password.")
        return {"type": "user", "name": USER, "orgs": [], "auth": {"accessToken": {"role": "write"}}}

    def create(self) -> object:
        if self.user is None:
            raise HubError(401, "Invalid username or password.")
        wanted = json.loads(self.body)
        name = f"{wanted.get('organization') or USER}/{wanted['name']}"
        address = {"url": f"{self.double.url}/{name}", "name": name}
        if name in self.double.repositories:
            raise HubError(409, "You already created this model repo", url=address["url"])
        private = bool(wanted.get("private")) or wanted.get("visibility") == "private"
        repository = self.double.repositories[name] = Repository(private)
        repository.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"})
        return address

    def validate_card(self) -> object:
        check_card(json.loads(self.body)["content"])
        return {"errors": [], "warnings": []}

    def preupload(self, name: str, revision: str) -> object:
        self._repository(name, write=True)
        modes = []
        for file in json.loads(self.body)["files"]:
            large = file["path"].endswith((".safetensors", ".bin")) or b"\0" in base64.b64decode(file["sample"])
            modes.append({"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False})
        return {"files": modes}

    def lfs_batch(self, name: str) -> object:
        self._repository(name, write=True)
        answers = []
        for wanted in json.loads(self.body)["objects"]:
            answer = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.double.objects:
                upload = f"{self.double.url}/storage/{wanted['oid']}/{wanted['size']}"
                verify = f"{self.double.url}/{name}.git/verify"
                answer["actions"] = {"upload": {"href": upload}, "verify": {"href": verify}}
            answers.append(answer)
        return {"transfer": "basic", "objects": answers}

    def store(self, oid: str, size: str) -> object:
        if len(self.body) != int(size) or hashlib.sha256(self.body).hexdigest() != oid:
            raise HubError(400, "The content is not what its sha256 and size say")
        self.double.objects[oid] = self.body
        return b""

    def verify(self, name: str) -> object:
        self._repository(name, write=True)
        wanted = json.loads(self.body)
        if len(self.double.objects.get(wanted["oid"], b"")) != wanted["size"]:
            raise HubError(404, "Object not found")
        return {}

    def commit(self, name: str, branch: str) -> object:
        repository = self._repository(name, write=True)
        files = dict(repository.commits[repository.branches.get(branch, repository.branches["main"])])
        for line in self.body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                content = self.double.objects.get(value["oid"])
                if value["algo"] != "sha256" or content is None or len(content) != value["size"]:
                    raise HubError(400, f"{value['path']}: its LFS object was never uploaded")
                files[value["path"]] = content
            elif operation["key"] == "deletedFile":
                del files[value["path"]]
        check_card(files.get("README.md", b"").decode())
        sha = repository.commit(branch, files)
        return {"success": True, "commitOid": sha, "commitUrl": f"{self.double.url}/{name}/commit/{sha}"}

    def branch(self, name: str, branch: str) -> object:
        repository = self._repository(name, write=True)
        if branch in repository.branches:
            raise HubError(409, "Reference already exists")
        repository.branches[branch] = repository.branches["main"]
        return {}

    def info(self, name: str, revision: str | None = None) -> object:
        sha, files = self._commit_of(name, revision or "main")
        siblings = [{"rfilename": path} for path in sorted(files)]
        private = self.double.repositories[name].private
        return {"id": name, "modelId": name, "sha": sha, "private": private, "siblings": siblings, "tags": []}

    def tree(self, name: str, revision: str) -> object:
        _, files = self._commit_of(name, revision)
        return [
            {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            for path, content in sorted(files.items())
        ]

    def resolve(self, name: str, revision: str, path: str) -> object:
        sha, files = self._commit_of(name, revision)
        if path not in files:
            raise HubError(404, "Entry not found", "EntryNotFound")
        content = files[path]
        headers = {"X-Repo-Commit": sha, "ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
        return headers, content


def check_card(text: str) -> None:
    try:
        ModelCard(text, ignore_metadata_errors=False)
    except ValueError as error:
        raise HubError(400, str(error)) from error


_NAME = r"([\w.-]+/[\w.-]+)"
ROUTES = [
    ("GET", "/api/whoami-v2", _Handler.whoami),
    ("POST", "/api/repos/create", _Handler.create),
    ("POST", "/api/validate-yaml", _Handler.validate_card),
    ("POST", f"/api/models/{_NAME}/preupload/(.+)", _Handler.preupload),
    ("POST", rf"/{_NAME}\.git/info/lfs/objects/batch", _Handler.lfs_batch),
    ("PUT", r"/storage/(\w+)/(\d+)", _Handler.store),
    ("POST", rf"/{_NAME}\.git/verify", _Handler.verify),
    ("POST", f"/api/models/{_NAME}/commit/(.+)", _Handler.commit),
    ("POST", f"/api/models/{_NAME}/branch/(.+)", _Handler.branch),
    ("GET", f"/api/models/{_NAME}/revision/(.+)", _Handler.info),
    ("GET", f"/api/models/{_NAME}/tree/([^/]+)", _Handler.tree),
    ("GET", f"/api/models/{_NAME}", _Handler.info),
    ("GET", f"/{_NAME}/resolve/([^/]+)/(.+)", _Handler.resolve),
]
