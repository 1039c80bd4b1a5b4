"""Ctrl-C in a terminal while a call runs: terminal.py URL COMMAND…, a command that serves at URL.

A terminal sends the signal to the launcher and to the program. If the launcher passed it on as well, the
host would take the second signal as a request to end at once, and the run would be lost. After one signal
the host hands the call off as a task, and waits for it.
"""

import os
import pty
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

url, command = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)


def read():
    """Reads the terminal to its end, because a full one blocks the host."""
    try:
        while text := os.read(terminal, 4096):
            sys.stdout.write(text.decode(errors="replace"))
    except OSError:
        pass  # Linux reports the end of a terminal as an error.


threading.Thread(target=read, daemon=True).start()
until = time.monotonic() + 30
while time.monotonic() < until:
    try:
        urllib.request.urlopen(url, timeout=5)
    except urllib.error.HTTPError:
        break  # It answers.
    except OSError:
        time.sleep(0.1)

ask = os.path.join(os.path.dirname(__file__), "ask.py")
options = ["--url", url, "--tools", "5", "--call", "wait", '{"ms": 3000}', "--expect", "is still running"]
call = subprocess.Popen([sys.executable, "-u", ask, *options], stdout=subprocess.PIPE, text=True)
for line in call.stdout:
    if line.endswith(" tools\n"):
        break
time.sleep(1)  # The call has begun by now, and takes two seconds more.
os.write(terminal, b"\x03")
stopped = time.monotonic()
if call.wait(30) != 0:
    sys.exit("the call was lost")
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
took = time.monotonic() - stopped
if status != 0 or took < 1:
    sys.exit(f"the command ended with {status} after {took:.1f} s, and did not wait for the run")
