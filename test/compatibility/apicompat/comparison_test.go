// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"strings"
	"testing"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func said(t *testing.T, code int, text string, warnings ...string) []answer {
	t.Helper()
	a := answer{to: "create", code: code, warnings: warnings, text: text}
	if err := utiljson.Unmarshal([]byte(text), &a.object); err != nil {
		t.Fatal(err)
	}
	return []answer{a}
}

func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	const (
		refusal = `{"kind":"Status","reason":"Invalid","details":{"kind":"Thing","name":"x","causes":[{"reason":"R","field":"a"},{"reason":"R","field":"b"}]}}`
		table   = `{"kind":"Table","columnDefinitions":[{"name":"Name","priority":0}],"rows":[{"cells":["x",1]}]}`
	)
	replaced := func(text, what, by string) []answer {
		t.Helper()
		changed := strings.ReplaceAll(text, what, by)
		if changed == text {
			t.Fatalf("%s is not in %s", what, text)
		}
		return said(t, 422, changed)
	}
	object := func(metadata string) []answer { return said(t, 200, `{"kind":"Thing","metadata":{`+metadata+`}}`) }
	generated := func(answers []answer) []answer {
		answers[0].prefix = "a-"
		return answers
	}
	now, long := time.Now().UTC().Format(time.RFC3339), "2001-02-03T04:05:06Z"
	for name, tc := range map[string]struct {
		kube, annex []answer
		want        bool
	}{
		"the same":                          {said(t, 422, refusal), said(t, 422, refusal), false},
		"another code":                      {said(t, 422, refusal), said(t, 400, refusal), true},
		"another reason":                    {said(t, 422, refusal), replaced(refusal, "Invalid", "Conflict"), true},
		"another kind in the details":       {said(t, 422, refusal), replaced(refusal, `"kind":"Thing"`, `"kind":"Other"`), true},
		"no kind in the details":            {replaced(refusal, `"kind":"Thing",`, ``), replaced(refusal, `"kind":"Thing"`, `"kind":"Other"`), false},
		"the field of a cause":              {said(t, 422, refusal), replaced(refusal, `"field":"b"`, `"field":"c"`), true},
		"the reason of a cause":             {said(t, 422, refusal), replaced(refusal, `"reason":"R","field":"b"`, `"reason":"S","field":"b"`), true},
		"a cause that is not there":         {said(t, 422, refusal), replaced(refusal, `,{"reason":"R","field":"b"}`, ``), true},
		"causes in another order":           {said(t, 422, refusal), replaced(refusal, `{"reason":"R","field":"a"},{"reason":"R","field":"b"}`, `{"reason":"R","field":"b"},{"reason":"R","field":"a"}`), false},
		"a message":                         {said(t, 422, refusal), replaced(refusal, `"kind":"Status"`, `"kind":"Status","message":"m"`), false},
		"a warning":                         {said(t, 200, `{}`), said(t, 200, `{}`, "w"), true},
		"another warning":                   {said(t, 200, `{}`, "v"), said(t, 200, `{}`, "w"), true},
		"a field":                           {object(`"name":"x"`), object(`"name":"x","generation":1`), true},
		"a number and text":                 {object(`"generation":1`), object(`"generation":"1"`), true},
		"another uid":                       {object(`"uid":"1","resourceVersion":"1"`), object(`"uid":"2","resourceVersion":"2"`), false},
		"no uid":                            {object(`"uid":"1"`), object(``), true},
		"a resourceVersion that is empty":   {object(`"resourceVersion":"1"`), object(`"resourceVersion":""`), true},
		"now and a moment ago":              {object(`"creationTimestamp":"` + now + `"`), object(`"creationTimestamp":"` + now + `"`), false},
		"now and long ago":                  {object(`"creationTimestamp":"` + now + `"`), object(`"creationTimestamp":"` + long + `"`), true},
		"a cause twice":                     {said(t, 422, refusal), replaced(refusal, `{"reason":"R","field":"b"}`, `{"reason":"R","field":"b"},{"reason":"R","field":"b"}`), false},
		"two generated names":               {generated(object(`"name":"a-12345"`)), generated(object(`"name":"a-bcdef"`)), false},
		"one generated name is too long":    {generated(object(`"name":"a-12345"`)), generated(object(`"name":"a-bcdefg"`)), true},
		"two names that look generated":     {object(`"name":"a-12345"`), object(`"name":"a-bcdef"`), true},
		"the manager of fields":             {object(`"managedFields":[{"manager":"a"}]`), object(`"managedFields":[{"manager":"b"}]`), true},
		"the column of a table":             {said(t, 200, table), said(t, 200, strings.ReplaceAll(table, "Name", "Nom")), true},
		"the priority of a column":          {said(t, 200, table), said(t, 200, strings.ReplaceAll(table, `"priority":0`, `"priority":1`)), true},
		"a cell":                            {said(t, 200, table), said(t, 200, strings.ReplaceAll(table, `"x",1`, `"x",2`)), true},
		"ages in a table":                   {said(t, 200, strings.ReplaceAll(table, `1]`, `"3s"]`)), said(t, 200, strings.ReplaceAll(table, `1]`, `"2m3s"]`)), false},
		"an age and none":                   {said(t, 200, strings.ReplaceAll(table, `1]`, `"3s"]`)), said(t, 200, strings.ReplaceAll(table, `1]`, `"<unknown>"]`)), true},
		"an answer more":                    {said(t, 200, `{}`), nil, true},
		"text that is no object":            {[]answer{{code: 404, text: "a"}}, []answer{{code: 404, text: "b"}}, true},
		"something after the same answer":   {append(said(t, 200, `{}`), said(t, 200, table)...), append(said(t, 200, `{}`), said(t, 404, table)...), true},
		"the same, then the same once more": {append(said(t, 200, `{}`), said(t, 200, table)...), append(said(t, 200, `{}`), said(t, 200, table)...), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := differences(tc.kube, tc.annex); (got != "") != tc.want {
				t.Errorf("differences: %q, want some: %v", got, tc.want)
			}
		})
	}
}

func TestADifferenceIsShownWithBothAnswers(t *testing.T) {
	t.Parallel()
	got := differences(said(t, 201, `{"kind":"Thing","a":1}`), said(t, 422, `{"kind":"Status","message":"m"}`))
	for _, want := range []string{"create", `kube-apiserver: 201 [] {"kind":"Thing","a":1}`, `annex:          422 [] {"kind":"Status","message":"m"}`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestACaseThatDiffersMustDiffer(t *testing.T) {
	t.Parallel()
	one, other := said(t, 200, `{}`), said(t, 422, `{}`)
	for name, tc := range map[string]struct {
		differs     string
		kube, annex []answer
		want        bool
	}{
		"same":                   {"", one, one, false},
		"different":              {"", one, other, true},
		"different as it should": {"because", one, other, false},
		"same as it should not":  {"because", one, one, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := judge(testCase{Differs: tc.differs}, tc.kube, tc.annex); (got != "") != tc.want {
				t.Errorf("complaint: %q, want one: %v", got, tc.want)
			}
		})
	}
}

func TestCasesWithMistakesAreRefused(t *testing.T) {
	t.Parallel()
	const good = "name: a\nobject: {kind: Thing}\n"
	for name, tc := range map[string]struct{ in, want string }{
		"good":                    {good + "then:\n- patch: {}\n- delete: true\n---\nname: b\nobject: {}\n", ""},
		"a comment alone":         {"# nothing\n---\n" + good, ""},
		"an unknown key":          {good + "them: []\n", `unknown field "them"`},
		"an unknown key below":    {good + "then:\n- patch: {}\n  sub: status\n", `unknown field "sub"`},
		"a key twice":             {good + "name: b\n", "already set"},
		"no name":                 {"object: {}\n", "needs a name"},
		"no object":               {"name: a\n", "needs a name and an object"},
		"one name twice":          {good + "---\n" + good, "another case has this name"},
		"a step with nothing":     {good + "then:\n- subresource: status\n", "step 1 needs one of"},
		"a step with two":         {good + "then:\n- patch: {}\n  put: {}\n", "step 1 needs one of"},
		"a patch that is no list": {good + "then:\n- json: {}\n", "a list is needed"},
		"force without apply":     {good + "then:\n- patch: {}\n  force: true\n", "cannot have"},
		"a subresource, deleted":  {good + "then:\n- delete: true\n  subresource: status\n", "cannot have"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readCases(strings.NewReader(tc.in))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestRepetitionsAreSpelledOut(t *testing.T) {
	t.Parallel()
	cases, err := readCases(strings.NewReader(`{name: a, object: {"k-${x*3}": ["a${yz*2}b", 9007199254740993, "$${z}"]}, then: [{json: [{value: "${x*2}"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	list := cases[0].Object["k-xxx"].([]any)
	if operation := cases[0].Then[0].JSON[0].(map[string]any); operation["value"] != "xx" {
		t.Errorf("got %v", operation)
	}
	if list[0] != "ayzyzb" || list[1] != int64(9007199254740993) || list[2] != "$${z}" {
		t.Errorf("got %v", list)
	}
}
