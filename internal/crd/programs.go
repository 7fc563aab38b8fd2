package crd

import (
	"sync"
	"weak"

	"github.com/kapok-dev/kapok/internal/schema"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// programs has the compiled schemas in use, by fingerprint: versions and kinds with equal schemas
// share one. It holds weak references only.
type programs struct {
	mu    sync.Mutex
	known map[uint64]weak.Pointer[schema.Program]
}

func newPrograms() *programs { return &programs{known: map[uint64]weak.Pointer[schema.Program]{}} }

// compile returns the program of a schema. If an equal program is in use, it returns that one.
func (s *programs) compile(from *apiextensionsv1.JSONSchemaProps, preserve bool) (*schema.Program, error) {
	p, err := schema.Compile(from, preserve)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared := s.known[p.Fingerprint()].Value(); shared != nil {
		return shared, nil
	}
	for fingerprint, known := range s.known {
		if known.Value() == nil {
			delete(s.known, fingerprint)
		}
	}
	s.known[p.Fingerprint()] = weak.Make(p)
	return p, nil
}
