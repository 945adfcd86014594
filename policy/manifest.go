package policy

// Manifest is manifest.json of a checkpoint: everything but the weights. Each field is required; a checkpoint that lacks one
// does not load.
type Manifest struct {
	Format         string          `json:"format"`        // pinch-policy-v1
	Step           int             `json:"step"`          // training steps done
	Checkpoint     string          `json:"checkpoint"`    // identity: hash of the weights and of all fields below
	Architecture   Architecture    `json:"architecture"`  // widths and depths
	Spec           Spec            `json:"spec"`          // inputs, outputs, horizon, stride
	SpecHash       string          `json:"spec_hash"`     // Spec.Hash
	CameraOrder    []string        `json:"camera_order"`  // features, in the order of the context
	GeometryHash   string          `json:"geometry_hash"` // Spec.GeometryHash
	Normalisation  Stats           `json:"normalisation"`
	Tokenizer      Tokenizer       `json:"tokenizer"`
	TimeConvention string          `json:"time_convention"` // noise_at_one: see the package comment
	Action         ActionMeaning   `json:"action"`
	Data           Provenance      `json:"data"`
	Files          map[string]File `json:"files"` // weights, by file name
}

// Tokenizer identifies the text form.
type Tokenizer struct {
	Name string `json:"name"` // bytes-v1, or byte-pairs-v1 with its table in the file tokenizer.json
	Hash string `json:"hash"`
}

// ActionMeaning says what the rows of an answer mean, for servers and clients.
type ActionMeaning struct {
	Dim           int     `json:"dim"` // columns of an answer
	RateHz        float64 `json:"rate_hz"`
	PoseReference string  `json:"pose_reference"` // body; empty without poses
	PoseTiming    string  `json:"pose_timing"`    // next; empty without poses
}

// Provenance says which data a policy was trained on.
type Provenance struct {
	Identity      string   `json:"identity"` // content hash of the dataset
	Name          string   `json:"name"`     // folder name, for people
	TrainEpisodes []int    `json:"train_episodes"`
	ValEpisodes   []int    `json:"val_episodes"` // may be empty
	Split         string   `json:"split"`        // how rows were held out: episodes, tail or none
	Rows          int      `json:"rows"`         // training rows
	Prompts       []string `json:"prompts"`      // instructions seen in training, sorted

	Sets   []SetShare `json:"sets,omitempty"`   // of a mixture; train_episodes and val_episodes are then empty
	Parent *Parent    `json:"parent,omitempty"` // the checkpoint that training began with
}

// SetShare is one dataset of a mixture.
type SetShare struct {
	Name     string `json:"name"`
	Identity string `json:"identity"`
	Samples  int    `json:"samples"` // of each epoch
}

// Parent says what a post-trained policy took over.
type Parent struct {
	Checkpoint string `json:"checkpoint"` // identity
	Step       int    `json:"step"`
	Statistics string `json:"statistics"` // checkpoint or data: whose normalisation
}

// File is one weight file beside the manifest.
type File struct {
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}
