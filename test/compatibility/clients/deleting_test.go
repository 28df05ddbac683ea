// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"bufio"
	"context"
	"strings"
	"testing"

	"github.com/kube-annex/annex/test/framework"
)

// deleting has objects of its own in each case.
var deleting = map[string][]step{
	"delete": {
		{line: "create cm doomed-1", want: `created`},
		{line: "create cm doomed-2", want: `created`},
		{line: "label cm doomed-1 doomed-2 fate=doom", want: `labeled`},
		{line: "delete cm -l fate=doom --dry-run=server", want: `"doomed-1" deleted .*\(server dry run\)`},
		{line: "delete cm -l fate=doom --field-selector=metadata.name=doomed-1", want: `"doomed-1" deleted`},
		{line: "get cm -l fate=doom -o name", want: `^configmap/doomed-2\n$`},
		{line: "delete cm doomed-1", want: `!NotFound`},
		{line: "delete cm doomed-1 doomed-2 --ignore-not-found", want: `^configmap "doomed-2" deleted.*\n$`},
		{line: "delete cm -l fate=doom --now", want: `No resources found`},
	},
	"delete with a finalizer": {
		{line: "create -f -", want: `created`, input: `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: everyday, finalizers: [everyday.example.com/hold]}}`},
		{line: "delete cm held --timeout=100ms", want: `!timed out waiting for the condition on configmaps/held`},
		{line: "get cm held -o jsonpath={.metadata.deletionTimestamp}", want: `^\d{4}-`},
		{line: `patch cm held --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'`, want: `patched`},
		{line: "get cm held", want: `!NotFound`},
	},
}

// owned makes a Lamp and a ConfigMap of it, both with the name.
func owned(t *testing.T, k *framework.Kubectl, name string) {
	t.Helper()
	k.Run(t, "create", "-f", written(t, lamp(name, "{}")))
	uid := k.Run(t, "get", "lamp", name, "-o", "jsonpath={.metadata.uid}")
	k.Run(t, "create", "-f", written(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+", namespace: everyday, ownerReferences: ["+
		"{apiVersion: everyday.example.com/v1, kind: Lamp, name: "+name+", uid: "+uid+", blockOwnerDeletion: true}]}}"))
}

func deleteInBackground(t *testing.T, k *framework.Kubectl) {
	owned(t, k, "background")
	k.Want(t, `"background" deleted`, "delete", "lamp", "background")
	k.Run(t, "wait", "--for=delete", "cm/background", "--timeout=60s")
}

// deleteInForeground has kubectl return when both are gone.
func deleteInForeground(t *testing.T, k *framework.Kubectl) {
	owned(t, k, "foreground")
	k.Want(t, `"foreground" deleted`, "delete", "lamp", "foreground", "--cascade=foreground")
	k.WantError(t, `NotFound`, "get", "cm", "foreground")
}

func deleteOrphaning(t *testing.T, k *framework.Kubectl) {
	owned(t, k, "orphan")
	k.Want(t, `"orphan" deleted`, "delete", "lamp", "orphan", "--cascade=orphan")
	k.Want(t, `^orphan:$`, "get", "cm", "orphan", "-o", "jsonpath={.metadata.name}:{.metadata.ownerReferences}")
}

// checkWatch has kubectl print each event of an object's life.
func checkWatch(t *testing.T, k *framework.Kubectl) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	k.Run(t, "create", "-f", written(t, lamp("watched", "{colour: white}")))
	command := k.Command(ctx, "get", "lamp", "watched", "--watch", "--output-watch-events", "--no-headers")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for _, next := range []struct {
		want []string
		then []string
	}{
		{[]string{"ADDED", "watched", "white"}, []string{"patch", "lamp", "watched", "--type=merge", "-p", `{"spec":{"colour":"red"}}`}},
		{[]string{"MODIFIED", "watched", "red"}, []string{"delete", "lamp", "watched"}},
		{[]string{"DELETED", "watched", "red"}, nil},
	} {
		if !lines.Scan() {
			t.Fatalf("kubectl get --watch ended before it printed %v: %v", next.want, lines.Err())
		}
		if got := strings.Fields(lines.Text()); strings.Join(got, " ") != strings.Join(next.want, " ") {
			t.Errorf("kubectl get --watch prints %q, want %q", got, next.want)
		}
		if next.then != nil {
			k.Run(t, next.then...)
		}
	}
	cancel()
	if err := command.Wait(); err == nil {
		t.Error("kubectl get --watch ended by itself")
	}
}
