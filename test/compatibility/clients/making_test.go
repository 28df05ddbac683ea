// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

// making uses what kubectl has for kinds that it knows.
var making = map[string][]step{
	"create namespace": {
		{line: "create namespace made", want: `created`},
		{line: "create namespace made", want: `!AlreadyExists`},
		{line: "get ns made -o jsonpath={.status.phase}", want: `^Active$`},
	},
	"create configmap and secret": {
		{line: "create configmap made --from-literal=a=1 --from-file=lamps=" + everyday + "lamps.yaml", want: `created`},
		{line: "get cm made -o jsonpath={.data.a}", want: `^1$`},
		{line: "create secret generic made --from-literal=a=1", want: `created`},
		{line: "get secret made -o jsonpath={.type}:{.data.a}", want: `^Opaque:MQ==$`},
		{line: "create secret docker-registry pull --docker-server=example.com --docker-username=u --docker-password=p", want: `created`},
		{line: "create secret tls broken --cert=" + everyday + "lamps.yaml --key=" + everyday + "lamps.yaml", want: `!failed to load key pair|failed to find any PEM data`},
	},
	"create service account and token": {
		{line: "create serviceaccount made", want: `created`},
		{line: "create token made --duration=10m --audience=elsewhere", want: `^[\w-]+\.[\w-]+\.[\w-]+$`},
		{line: "create token made --bound-object-kind=Secret --bound-object-name=none", want: `!secrets "none" not found`},
		{line: "create token nobody", want: `!serviceaccounts "nobody" not found`},
	},
	"create roles": {
		{line: "create role made --verb=get,list --resource=configmaps,lamps.everyday.example.com/status --resource-name=bulbs", want: `created`},
		{line: "create rolebinding made --role=made --serviceaccount=everyday:reader", want: `created`},
		{line: "create clusterrole everyday-made --verb=get --non-resource-url=/made", want: `created`},
		{line: "create clusterrole everyday-sum --aggregation-rule=everyday=yes", want: `created`},
		{line: "create clusterrolebinding everyday-made --clusterrole=everyday-made --group=makers", want: `created`},
		{line: "auth can-i get cm/bulbs --as=system:serviceaccount:everyday:reader", want: `~^yes$`},
		{line: "auth can-i get /made --as=a --as-group=makers", want: `~^yes$`},
		{line: "create role made --verb=fly --resource=configmaps --dry-run=client -o yaml", want: `- fly`},
		{line: "auth reconcile -f -", want: `reconciled`, input: `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: made, namespace: everyday}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}`},
		{line: "get role made -o 'jsonpath={.rules[*].resources}'", want: `configmaps.*secrets`},
	},
	"create quota": {
		{line: "create quota made --hard=count/lamps.everyday.example.com=100,secrets=50", want: `created`},
		{line: "describe quota made", want: `~^count/lamps\.everyday\.example\.com\s+\d+\s+100$`},
	},
	"dry runs": {
		{line: "create cm dry --dry-run=client -o yaml", want: `^  name: dry$`},
		{line: "create cm dry --dry-run=server -o jsonpath={.metadata.uid}", want: `^[0-9a-f-]{36}$`},
		{line: "create ns Not_A_Name --dry-run=server", want: `!a lowercase RFC 1123 label`},
		{line: "get cm dry", want: `!NotFound`},
	},
	"certificates": {
		{line: "apply -f " + everyday + "request.yaml", want: `created`},
		{line: "get csr everyday", want: `everyday\s+\S+\s+kubernetes\.io/kube-apiserver-client\s.*Pending`},
		{line: "certificate deny everyday", want: `denied`},
		{line: "get csr everyday", want: `Denied`},
		{line: "certificate approve everyday", want: `!Denied|denied`},
		{line: "delete csr everyday", want: `deleted`},
	},
	"apply sets": {
		{line: "apply --server-side --prune --applyset=lampset -n everyday -f -", want: `serverside-applied`, input: lamp("set1", "{}") + "\n---\n" + lamp("set2", "{}")},
		{line: "apply --server-side --prune --applyset=lampset -n everyday -f -", want: `set1 pruned`, input: lamp("set2", "{}")},
		{line: "get secret lampset -o 'jsonpath={.metadata.annotations.applyset\\.kubernetes\\.io/contains-group-kinds}'", want: `^Lamp\.everyday\.example\.com$`},
		{line: "get lamp set1", want: `!NotFound`},
	},
}
