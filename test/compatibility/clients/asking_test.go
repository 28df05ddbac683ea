// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

// asking changes nothing but what it has made itself.
var asking = map[string][]step{
	"auth can-i": {
		{line: "auth can-i --list --as=jane", want: `^configmaps\s+\[\]\s+\[\]\s+\[get list\]`},
		{line: "auth can-i --list", want: `^\*\.\*\s+\[\]\s+\[\]\s+\[\*\]`},
		{line: "auth can-i list configmaps --as=jane", want: `^yes$`},
		{line: "auth can-i delete configmaps --as=jane", want: `!^no$`},
		{line: "auth can-i '*' '*' -A", want: `^yes$`},
		{line: "auth can-i get lamps/status --as=jane --subresource=status", want: `!^no`},
		{line: "auth can-i get /healthz --as=jane --as-group=system:authenticated", want: `^yes$`},
	},
	"auth whoami": {
		{line: "auth whoami", want: `^Username\s+\S+\n(.|\n)*^Groups\s+\[system:masters system:authenticated\]`},
		{line: "auth whoami --as=jane --as-group=clerks -o jsonpath={.status.userInfo.username}:{.status.userInfo.groups}", want: `^jane:\["clerks","system:authenticated"\]$`},
	},
	"api-resources": {
		{line: "api-resources --api-group=everyday.example.com -o wide --no-headers", want: `^lamps\s+lp\s+everyday\.example\.com/v1\s+true\s+Lamp\s+delete,deletecollection,get,list,patch,create,update,watch\s+all$`},
		{line: "api-resources --namespaced=false --verbs=list -o name", want: `^namespaces$(.|\n)*^clusterroles\.rbac\.authorization\.k8s\.io$`},
		{line: "api-resources --categories=all -o name", want: `^lamps\.everyday\.example\.com$`},
		{line: "api-resources --sort-by=kind", want: `(?s)APIService.*ConfigMap.*Secret`},
	},
	"api-versions": {{line: "api-versions", want: `(?s)^apiregistration\.k8s\.io/v1$.*^everyday\.example\.com/v1$.*^v1$`}},
	"explain": {
		{line: "explain lamp.spec.colour", want: `~ENUM:\s+white\s+red\s+green(.|\n)*What light it gives`},
		{line: "explain lamps --recursive", want: `~^\s+bulbs\t<integer>`},
		{line: "explain configmap.data --api-version=v1", want: `Data contains the configuration data`},
		{line: "explain lamps.spec.switch", want: `!field "switch" does not exist`},
	},
	"cluster-info and version": {
		// It looks for Services, of which there are none.
		{line: "cluster-info", want: `!the server doesn't have a resource type "services"`},
		{line: "version", want: `^Server Version: v1\.37\.`},
		{line: "get --raw /readyz", want: `^ok$`},
		{line: "get --raw /livez?verbose", want: `^livez check passed$`},
		{line: "get --raw /version", want: `"major": "1"`},
		{line: "get --raw /openid/v1/jwks", want: `"keys":`},
	},
	"get": {
		{line: "get lp desk porch", want: `^NAME\s+COLOUR\ndesk\s+white\nporch\s+red\n$`},
		{line: "get lamp desk porch -o wide", want: `^NAME\s+COLOUR\s+ROOM\ndesk\s+white\s+study\nporch\s+red\s+porch\n$`},
		{line: "get lamp porch -o yaml", want: `^  bulbs: 2\n  colour: red\n  room: porch$`},
		{line: "get cm/bulbs -o json", want: `"red": "1"`},
		{line: "get lamp desk -o name", want: `^lamp\.everyday\.example\.com/desk$`},
		{line: "get lamp desk porch -o 'jsonpath={range .items[*]}{.metadata.name}:{.spec.bulbs};{end}'", want: `^desk:1;porch:2;$`},
		{line: "get lamp desk -o custom-columns=LAMP:.metadata.name,GLOWS:.spec.colour", want: `^LAMP\s+GLOWS\ndesk\s+white\n$`},
		{line: "get cm bulbs -o 'go-template={{range $k,$v := .data}}{{$k}}={{$v}} {{end}}'", want: `^red=1 white=3 $`},
		{line: "get lamps -l place=outdoors -L place --show-kind", want: `^lamp\.everyday\.example\.com/porch\s+red\s+outdoors$`},
		{line: "get lamps -l 'place in (indoors,outdoors)' --sort-by={.spec.bulbs} --no-headers", want: `^desk.*\nporch.*\n$`},
		{line: "get lamps -l place --chunk-size=1 -o name", want: `desk\n.*porch\n$`},
		{line: "get cm --field-selector=metadata.name=bulbs --show-labels", want: `^bulbs\s+2\s+\S+\s+kind=stock$`},
		{line: "get all", want: `^desk\s+white$`},
		{line: "get lamps,cm -A", want: `(?s)^everyday\s+lamp\.everyday\.example\.com/desk.*^everyday\s+configmap/bulbs`},
		{line: "get lamp none", want: `!^Error from server \(NotFound\): lamps\.everyday\.example\.com "none" not found$`},
		{line: "get lamp none --ignore-not-found", want: `^$`},
		{line: "get lamps --field-selector=spec.colour=red", want: `!field label not supported: spec\.colour`},
		{line: "get pods", want: `!doesn't have a resource type "pods"`},
	},
	"describe": {
		{line: "describe lamp desk", want: `^  Colour:\s+white$`},
		{line: "describe cm bulbs", want: `^white:\n----\n3$`},
		{line: "describe ns everyday", want: `^Status:\s+Active$(.|\n)*^(No resource quota\.|Resource Quotas)$`},
		{line: "describe role clerk", want: `^  configmaps\s+\[\]\s+\[\]\s+\[get list\]$`},
		{line: "describe rolebinding clerk", want: `^  User\s+jane`},
		{line: "describe sa default", want: `^Name:\s+default$`},
		{line: "describe clusterrole view", want: `configmaps\s+\[\]\s+\[\]\s+\[get list watch\]`},
		{line: "describe crd lamps.everyday.example.com", want: `^\s+Reason:\s+InitialNamesAccepted$`},
	},
	"events": {
		{line: "create -f -", want: `created`, input: `{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e1}, eventTime: "2026-01-01T00:00:00.000000Z", reportingController: example.com/test, reportingInstance: a, action: Burn, reason: Burnt, type: Warning, note: a bulb burnt out, regarding: {apiVersion: everyday.example.com/v1, kind: Lamp, name: desk, namespace: everyday}}`},
		{line: "events --for lamp/desk", want: `Warning\s+Burnt\s+Lamp/desk\s+a bulb burnt out`},
		{line: "events --for lamp/desk --types=Normal", want: `No events found`},
		{line: "get events --field-selector=reason=Burnt,involvedObject.name=desk", want: `Warning\s+Burnt\s+lamp/desk\s+a bulb burnt out`},
	},
	"config": {
		{line: "config current-context", want: `^annex$`},
		{line: "config view --minify -o jsonpath={.contexts[0].context.namespace}", want: `^everyday$`},
		{line: "config get-contexts", want: `^\*\s+annex\s.*\severyday\s*$`},
		{line: "config get-clusters", want: `^annex$`},
	},
	"kustomize": {
		{line: "kustomize " + everyday + "kustomized", want: `(?s)name: k-wiring-[a-z0-9]+.*colour: green`},
		{line: "diff -k " + everyday + "kustomized", want: `!^\+  colour: green$`},
		{line: "apply -k " + everyday + "kustomized", want: `^lamp\.everyday\.example\.com/k-shelf created$`},
		{line: "get -k " + everyday + "kustomized", want: `^configmap/k-wiring-`},
		{line: "diff -k " + everyday + "kustomized", want: `^$`},
		{line: "delete -k " + everyday + "kustomized", want: `"k-shelf" deleted`},
	},
}
