// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

// changing has an object of its own in each case.
var changing = map[string][]step{
	"label": {
		{line: "create cm labelled", want: `created`},
		{line: "label cm labelled a=1 b=2", want: `labeled`},
		{line: "label cm labelled a=2", want: `!already has a value \(1\), and --overwrite is false`},
		{line: "label cm labelled a=2 b- --overwrite", want: `modified`},
		{line: "label cm labelled --list", want: `^a=2$`},
		{line: "label cm labelled 'a=not a value' --overwrite", want: `!a valid label must be`},
	},
	"annotate": {
		{line: "create cm annotated", want: `created`},
		{line: "annotate cm annotated note='with spaces'", want: `annotated`},
		{line: "get cm annotated -o jsonpath={.metadata.annotations.note}", want: `^with spaces$`},
		{line: "annotate cm annotated note-", want: `annotated`},
		{line: "annotate cm annotated --list", want: `^$`},
	},
	"patch": {
		{line: "create -f -", want: `created`, input: lamp("patched", "{colour: white, notes: [one]}")},
		{line: `patch lamp patched --type=merge -p '{"spec":{"colour":"red"}}'`, want: `patched$`},
		{line: `patch lamp patched --type=merge -p '{"spec":{"colour":"red"}}'`, want: `patched \(no change\)`},
		{line: `patch lamp patched --type=json -p '[{"op":"test","path":"/spec/colour","value":"red"},{"op":"add","path":"/spec/notes/-","value":"two"}]'`, want: `patched`},
		{line: `patch lamp patched --type=json -p '[{"op":"test","path":"/spec/colour","value":"blue"}]'`, want: `!`},
		{line: `patch lamp patched --type=strategic -p '{"spec":{"room":"x"}}'`, want: `!the body of the request was in an unknown format - accepted media types include: application/json-patch\+json, application/merge-patch\+json, application/apply-patch\+yaml`},
		{line: `patch lamp patched --subresource=status --type=merge -p '{"status":{"phase":"On"},"spec":{"colour":"green"}}'`, want: `patched`},
		{line: `patch lamp patched --type=merge -p '{"spec":{"colour":"blue"}}'`, want: `!Unsupported value: "blue"`},
		{line: "get lamp patched -o jsonpath={.spec.colour},{.spec.notes},{.status.phase}", want: `^red,\["one","two"\],On$`},
		{line: `patch cm bulbs -p '{"data":{"green":"7"}}' --dry-run=server -o jsonpath={.data}`, want: `^\{"green":"7","red":"1","white":"3"\}$`},
		{line: `patch cm bulbs -p '{"metadata":{"labels":{"kind":null}}}' --dry-run=server -o jsonpath={.metadata.labels}`, want: `^$`},
	},
	"edit": {
		{line: "create -f -", want: `created`, input: lamp("edited", "{colour: white}")},
		{line: "edit lamp edited", want: `edited$`, editor: "s/colour: white/colour: green/"},
		{line: "edit lamp edited", want: `Edit cancelled, no changes made`, editor: "s/nothing/at all/"},
		{line: "edit lamp edited --subresource=status", want: `edited$`, editor: `s/^spec:/status: {phase: Lit}\nspec:/`},
		{line: "get lamp edited -o jsonpath={.spec.colour},{.status.phase}", want: `^green,Lit$`},
	},
	"apply": {
		{line: "apply -f -", want: `created`, input: lamp("applied", "{colour: white, room: hall}")},
		{line: "apply view-last-applied lamp/applied", want: `colour: white`},
		{line: "diff -f -", want: `!^-  room: hall$`, input: lamp("applied", "{colour: white}")},
		{line: "apply -f -", want: `configured`, input: lamp("applied", "{colour: white}")},
		{line: "get lamp applied -o jsonpath={.spec}", want: `^\{"colour":"white"\}$`},
		{line: "apply set-last-applied -f - --create-annotation", want: `configured`, input: lamp("applied", "{colour: red}")},
		{line: "apply --server-side --field-manager=other -f -", want: `!conflict with "kubectl-last-applied|conflict with "kubectl-client-side-apply`, input: lamp("applied", "{colour: green}")},
		{line: "apply --server-side --field-manager=other --force-conflicts -f -", want: `serverside-applied`, input: lamp("applied", "{colour: green}")},
		{line: "get lamp applied --show-managed-fields -o 'jsonpath={.metadata.managedFields[*].manager}'", want: `other`},
	},
	"replace": {
		{line: "create -f -", want: `created`, input: lamp("replaced", "{colour: white, bulbs: 1}")},
		{line: "replace -f -", want: `replaced`, input: lamp("replaced", "{colour: red}")},
		{line: "get lamp replaced -o jsonpath={.spec}", want: `^\{"colour":"red"\}$`},
		{line: "replace --force -f -", want: `replaced`, input: lamp("replaced", "{colour: green}")},
		{line: "replace -f -", want: `!NotFound`, input: lamp("nowhere", "{colour: green}")},
		{line: "get lamp replaced -o jsonpath={.metadata.generation},{.spec.colour}", want: `^1,green$`},
	},
	"scale": {
		{line: "create -f -", want: `created`, input: lamp("scaled", "{bulbs: 1}")},
		{line: "scale lamp scaled --replicas=4", want: `scaled`},
		{line: "scale lamp scaled --current-replicas=1 --replicas=2", want: `!Expected replicas to be 1, was 4`},
		{line: "get lamp scaled --subresource=scale -o jsonpath={.kind},{.spec.replicas}", want: `^Scale,4$`},
		{line: "scale cm bulbs --replicas=1", want: `!NotFound|could not find the requested resource`},
		{line: "rollout status lamp/scaled", want: `!no kind "Lamp" is registered`},
		{line: "rollout restart lamp/scaled", want: `!no kind "Lamp" is registered`},
	},
	"wait": {
		{line: "create -f -", want: `created`, input: lamp("awaited", "{colour: white}")},
		{line: "wait --for=condition=Ready lamp/awaited --timeout=100ms", want: `!timed out waiting for the condition on lamps/awaited`},
		{line: `patch lamp awaited --subresource=status --type=merge -p '{"status":{"phase":"On","conditions":[{"type":"Ready","status":"True"}]}}'`, want: `patched`},
		{line: "wait --for=condition=Ready lamp/awaited --timeout=60s", want: `condition met`},
		{line: "wait --for=jsonpath={.status.phase}=On lamp/awaited --timeout=60s", want: `condition met`},
		{line: "wait --for=create lamp/awaited --timeout=60s", want: `condition met`},
		{line: "delete lamp awaited --wait=false", want: `deleted`},
		{line: "wait --for=delete lamp/awaited --timeout=60s", want: `^$|condition met`},
	},
	"set": {
		{line: "create rolebinding settable --role=clerk --user=joe", want: `created`},
		{line: "set subject rolebinding settable --user=ann --group=clerks", want: `subjects updated`},
		{line: "get rolebinding settable -o 'jsonpath={.subjects[*].name}'", want: `^joe ann clerks$`},
	},
	"validation": {
		{line: "apply -f -", want: `!unknown field "spec\.color"`, input: lamp("unknown", "{color: white}")},
		{line: "create --validate=warn -f - --dry-run=server -o name", want: `Warning: unknown field "spec\.color"`, input: lamp("unknown", "{color: white}")},
		{line: "create --validate=ignore -f - --dry-run=server -o jsonpath={.spec}", want: `^\{\}$`, input: lamp("unknown", "{color: white}")},
		{line: "create -f -", want: `!Invalid value: "string"`, input: lamp("mistyped", "{bulbs: many}")},
		{line: "create -f -", want: `!no matches for kind "Torch"`, input: `{apiVersion: everyday.example.com/v1, kind: Torch, metadata: {name: a}}`},
	},
}

func lamp(name, spec string) string {
	return "{apiVersion: everyday.example.com/v1, kind: Lamp, metadata: {name: " + name + ", namespace: everyday}, spec: " + spec + "}"
}
