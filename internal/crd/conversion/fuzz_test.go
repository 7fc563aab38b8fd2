package conversion

import (
	"encoding/json"
	"testing"

	"github.com/kapok-dev/kapok/internal/crd/conversion/hooktest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/google/go-cmp/cmp"
)

// FuzzAnswer checks that, whatever a webhook responds, an accepted object is still the same object
// and can be stored.
func FuzzAnswer(f *testing.F) {
	for _, row := range answers {
		var review hooktest.Review
		review.APIVersion, review.Kind = "apiextensions.k8s.io/v1", "ConversionReview"
		review.Request.UID, review.Request.Desired = "u", "example.com/v1"
		review.Request.Objects = []map[string]any{parse(f, foo)}
		switch answer := row.answer(&review).(type) {
		case []byte:
			f.Add(answer)
		case map[string]any:
			data, err := json.Marshal(answer)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, err := newReview([]string{"v1"}, nil, "example.com/v1")
		if err != nil {
			t.Fatal(err)
		}
		r.uid = "u"
		if _, _, err := codecs().SupportedMediaTypes()[0].Serializer.Decode(answer, nil, r.answer); err != nil {
			return
		}
		raw, err := r.converted()
		if err != nil {
			return
		}
		for i := range raw {
			obj, err := decode(raw[i].Raw)
			if err != nil {
				continue
			}
			if accept(parse(t, foo), obj, "example.com/v1", i, false) != nil {
				continue
			}
			if obj["apiVersion"] != "example.com/v1" || obj["kind"] != "Foo" {
				t.Errorf("accepted %v", obj)
			}
			was, is := parse(t, foo)["metadata"].(Tree), obj["metadata"].(Tree)
			for _, m := range []Tree{was, is} {
				delete(m, "labels")
				delete(m, "annotations")
			}
			if diff := cmp.Diff(was, is); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if _, err := object.Encode(obj); err != nil {
				t.Error(err)
			}
		}
	})
}
