package encryption

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
)

// A judge is kube-apiserver's implementation of a configuration.
type judge struct {
	transformers encryptionconfig.StaticTransformers
}

func judgeOf(t testing.TB, file string) (judge, error) {
	c, err := encryptionconfig.LoadEncryptionConfig(t.Context(), file, false, "test")
	if err != nil {
		return judge{}, err
	}
	return judge{encryptionconfig.StaticTransformers(c.Transformers)}, nil
}

func (j judge) seal(path string, key object.Key, raw []byte) ([]byte, error) {
	return j.transformers.TransformerForResource(key.Resource).
		TransformToStorage(context.Background(), raw, value.DefaultContext(path))
}

func (j judge) open(path string, key object.Key, stored []byte) ([]byte, bool, error) {
	return j.transformers.TransformerForResource(key.Resource).
		TransformFromStorage(context.Background(), stored, value.DefaultContext(path))
}

// TestJudge checks that Kapok and kube-apiserver read each other's ciphertexts, or that both reject
// them, and that both agree on what is stale.
func TestJudge(t *testing.T) {
	seed := seeds.Of(t)
	random := rand.New(rand.NewPCG(seed, 1))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }

	texts := []string{
		configOf("pods: identity"),
		configOf("secrets: aescbc/a identity", "*.*: aesgcm/all"),
		configOf("secrets: identity aescbc/a", "*.: secretbox/core", "*.example.com: aesgcm/a,b identity"),
		configOf("secrets: secretbox/a,a:b aescbc/a identity", "secrets: aesgcm/second", "*.*: identity aesgcm/all"),
		configOf("secrets: aesgcm/a:b,a aescbc/a=other,a", "*.: secretbox/other,core", "widgets.example.com: aesgcm/b"),
		configOf("*.*: aesgcm16/a aesgcm24/b aesgcm/c aescbc16/a aescbc24/b aescbc/c secretbox/a identity"),
	}
	for range 10 {
		var providers string
		for range 1 + random.IntN(4) {
			name := pick("identity", "aescbc", "aesgcm", "secretbox", "aescbc16", "aesgcm24")
			if name != "identity" {
				name += "/" + pick("a", "b", "c") + pick("", ",a", ",c=a", ",a=c")
			}
			providers += " " + name
		}
		texts = append(texts, configOf(pick("secrets", "*.", "*.*", "secrets pods", "*.example.com")+":"+providers))
	}

	var ours []*Config
	var theirs []judge
	for _, text := range texts {
		name := file(t, text)
		c, err := loadFile(t, name)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		j, err := judgeOf(t, name)
		if err != nil {
			t.Fatalf("judge: %v\n%s", err, text)
		}
		ours, theirs = append(ours, c), append(theirs, j)
	}

	verdicts := map[string]int{}
	for range 400 {
		key := keyOf(pick("secrets", "pods", "widgets.example.com", "deployments.apps", "services", "nodes"), pick("", "default", "n"), fmt.Sprint("o", random.Uint32()))
		prefix := pick("/registry", "/registry", "/kapok", "/a/b", "")
		path := prefix + testPaths.Of(key)
		payload := make([]byte, random.IntN(3000))
		for i := range payload {
			payload[i] = "0123456789abcdef"[random.IntN(16)]
		}
		raw := objectOf(key, string(payload))

		i := random.IntN(len(texts))
		byUs, err := ours[i].Under(prefix).Seal(key, raw)
		if err != nil {
			t.Fatal(err)
		}
		byThem, err := theirs[i].seal(path, key, raw)
		if err != nil {
			t.Fatal(err)
		}
		if headerOf(byUs) != headerOf(byThem) || len(byUs) != len(byThem) {
			t.Fatalf("%s is stored as %.60q, by the judge as %.60q\n%s", key, byUs, byThem, texts[i])
		}
		for j := range texts {
			for _, stored := range [][]byte{byUs, byThem} {
				got, stale, err := ours[j].Under(prefix).Open(key, stored)
				want, wantStale, wantErr := theirs[j].open(path, key, stored)
				if wantErr == nil && !bytes.Equal(want, raw) {
					// A wrong CBC key that happens to fit; kube-apiserver would fail to decode the
					// result.
					// it.
					verdicts["noise"]++
					continue
				}
				if !bytes.Equal(got, want) || stale != wantStale || (err == nil) != (wantErr == nil) {
					t.Fatalf("%s, written as %q: %.60q, stale %v, %v; the judge: %.60q, %v, %v\nwritten with\n%sread with\n%s", key, headerOf(stored),
						got, stale, err, want, wantStale, wantErr, texts[i], texts[j])
				}
				verdicts[fmt.Sprintf("opened %v, stale %v", err == nil, stale)]++
			}
		}
	}
	t.Log(verdicts)
	for _, v := range []string{"opened true, stale false", "opened true, stale true", "opened false, stale false"} {
		if verdicts[v] < 100 {
			t.Errorf("too few values were %s: %v", v, verdicts)
		}
	}
}
