import time, re
from pathlib import Path
import psycopg, pytest
from canary.marks import *
from canary.world import *
from canary.processes import command
from monitor.settings import load, Settings
from servers.smtp import certificate
from servers.daemon import wait_for
import os

@pytest.mark.filterwarnings("ignore:.imghdr:DeprecationWarning")
def test_load(tmp_path, certificate, postgres_server, postgres_url):
    t0=time.monotonic()
    with singer(postgres_server, postgres_url) as url, hostile_world(tmp_path, certificate) as world:
        with psycopg.connect(url.replace("+psycopg",""), autocommit=True) as c: fill(c)
        for way in ("direct","file","environment"):
            p=world.write(way, database=url, source=url)
            os.environ.update(world.environ)
            s=load(p)
            print(way, time.monotonic()-t0)
            print("missing", secret_fields(Settings)-singing_fields(s), "unexpected", singing_fields(s)-secret_fields(Settings))
            for each in options_in(s):
                if songs_in(repr(each)+str(each)+repr(each.model_dump())+each.model_dump_json()):
                    print("REPR", type(each).__name__, songs_in(repr(each)), songs_in(repr(each.model_dump())), )
        out=tmp_path/"out"
        p=world.write("file", database=url, source=url, every="1s")
        with command(["serve","--config",str(p)], {"NOTIFY_SOCKET": ""}, out) as proc:
            wait_for(lambda: out.exists() and b"rankwatch serves" in out.read_bytes(), "start")
            print("up", time.monotonic()-t0)
            time.sleep(12)
            proc.terminate(); proc.join(20)
        print("down", time.monotonic()-t0)
        text=out.read_text()
        for line in text.splitlines():
            if songs_in(line): print("LEAK", line[:600])
        Path("/tmp/canary_out.txt").write_text(text)
        heard={}
        for r in world.hook.requests: heard.setdefault(r.path.split("/")[1], set()).update(owner_of(x) for x in songs_in(echo_of_all(r)))
        print(heard)
        print(len(world.mail.mails), world.mail.faults, world.hostile_mail.faults)

def echo_of_all(r):
    return (r.path+repr(r.headers)).encode()+r.body
