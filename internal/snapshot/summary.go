package snapshot

import "k8s.io/apimachinery/pkg/runtime/schema"

// Summary is the content of a snapshot in numbers.
type Summary struct {
	Header
	Objects   int               `json:"objects"`
	Bytes     int64             `json:"bytes"` // size of the JSON of all objects
	Resources []ResourceSummary `json:"resources"`
}

// ResourceSummary is the content of a snapshot for one resource.
type ResourceSummary struct {
	Resource string `json:"resource"` // in the form resource.group
	Objects  int    `json:"objects"`
	Bytes    int64  `json:"bytes"`
}

// Summary reads all objects and counts them.
func (r *Reader) Summary() (Summary, error) {
	s := Summary{Header: r.header, Resources: []ResourceSummary{}}
	var last schema.GroupResource
	for o, err := range r.Objects() {
		if err != nil {
			return Summary{}, err
		}
		if s.Objects == 0 || o.Key.Resource != last {
			last = o.Key.Resource
			s.Resources = append(s.Resources, ResourceSummary{Resource: last.String()})
		}
		of := &s.Resources[len(s.Resources)-1]
		of.Objects++
		of.Bytes += int64(len(o.Raw))
		s.Objects++
		s.Bytes += int64(len(o.Raw))
	}
	return s, nil
}
