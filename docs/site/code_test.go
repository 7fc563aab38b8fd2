package main

import (
	"strings"
	"testing"
)

// TestFormOf checks which language a block of code without a name has.
func TestFormOf(t *testing.T) {
	for code, want := range map[string]string{
		"$ kubectl get pods\nNAME\n":                       session,
		"kubectl get pods\n":                               "sh",
		"# first\nkapok up &\n":                            "sh",
		"KAPOK_SEED=1 go test ./...\n":                     "sh",
		".ci/run\n":                                        "sh",
		"package main\n":                                   "go",
		"// T is a type.\ntype T struct{}\n":               "go",
		"mgr, err := manager.New(cfg)\nif err != nil {\n":  "go",
		"kind: Policy\napiVersion: v1\n":                   "yaml",
		"- uses: kapok\n  with:\n":                         "yaml",
		"{\"kind\": \"Pod\"}\n":                            "json",
		"# /etc/x.service\n[Unit]\nDescription=x\n":        "ini",
		"Warning: deprecated\n":                            plain,
		"kubectl, client-go        clients\n   │      │\n": plain,
		"INFO goes on\n":                                   plain,
	} {
		if got := formOf(code); got != want {
			t.Errorf("%q: got %s, want %s", code, got, want)
		}
	}
}

// TestSession checks what is a command in a session: copying takes commands, and all of them.
func TestSession(t *testing.T) {
	code := "$ kubectl apply -f - <<EOF\nkind: Pod\n$ no prompt\nEOF\ncreated\n$ curl \\\n  --fail <url>\n\n$ true\n"
	want := `<span class="command">kubectl apply -f - &lt;&lt;EOF
kind: Pod
$ no prompt
EOF</span>
<span class="output">created
</span><span class="command">curl \
  --fail &lt;url&gt;</span>
<span class="output">
</span><span class="command">true</span>`
	if got := colourSession(code); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSessionWithoutEnd checks that a here-document without its end takes only its first line.
func TestSessionWithoutEnd(t *testing.T) {
	if got := colourSession("$ cat <<EOF\ntext\n"); !strings.HasPrefix(got, `<span class="command">cat &lt;&lt;EOF</span>`) {
		t.Error(got)
	}
}

// TestColour checks classes and escaping, and that no character is lost.
func TestColour(t *testing.T) {
	for _, c := range []struct{ code, language, want string }{
		{`return "<a>" // x`, "go", `<span class="k">return</span> <span class="s">&#34;&lt;a&gt;&#34;</span> <span class="c">// x</span>`},
		{"kind: Pod", "yaml", `<span class="a">kind</span>: Pod`},
		{"a < b", plain, "a &lt; b"},
		{"a < b", "no-such-language", "a &lt; b"},
	} {
		if got := strings.TrimSuffix(colour(c.code, c.language), "\n"); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
