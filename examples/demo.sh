#!/usr/bin/env bash
# The main job on real input: train an adapter, follow it, read it, use it, prove it.
set -euo pipefail
cd "$(dirname "$0")/.."
export TRAINLEDGER_HOME="${TRAINLEDGER_HOME:-$PWD/.cache/demo}" TRAINLEDGER_DISABLE_PROMPTS=true

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

trap 'trainledger server stop --quiet >/dev/null 2>&1 || true' EXIT

say '$ trainledger runs start -f examples/triage/plan.yaml --wait --exit-status'
trainledger runs start -f examples/triage/plan.yaml --wait --exit-status
run=$(trainledger runs list --limit 1 -o json | python -c 'import json, sys; print(json.load(sys.stdin)["runs"][0]["runId"])')

say "\$ trainledger runs metrics $run --limit 10"
trainledger runs metrics "$run" --limit 10

say 'One message that the training never saw, answered without and with the adapter'
adapter=$(trainledger runs get "$run" -o json | python -c 'import json, sys; print(json.load(sys.stdin)["results"]["model"]["path"])')
python examples/answer.py --adapter "$adapter" --row 1

say '$ trainledger audit verify'
trainledger audit verify

cat <<TEXT

Where to look next
  TRAINLEDGER_HOME=$TRAINLEDGER_HOME trainledger runs get $run --settings
  TRAINLEDGER_HOME=$TRAINLEDGER_HOME trainledger runs events $run -o json
  examples/triage/plan.yaml    the plan of this run: copy it, and put your own rows in its place
  examples/command/train.py    a training program of your own, with four lines for the ledger
  examples/grpo/train.py       reinforcement, and what each completion was rewarded for
  README.md                    how it works
TEXT
