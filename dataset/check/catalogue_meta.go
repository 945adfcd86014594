package check

import "github.com/pinch-robotics/pinch/dataset"

var metadataArea = Area{"Metadata", "meta/info.json", []Entry{
	{"info-json", dataset.Error, "info.json is no JSON object.", "", "write it again as JSON"},
	{"info-value", dataset.Error, "A key holds a value of the wrong kind.", "", "correct this value"},
	{"version", dataset.Error, "The format is neither v3.x nor v2.1.", "", "convert it to v3.0"},
	{"version-2", dataset.Note, "The format is v2.1, which LeRobot from 0.4 on refuses.", "", "convert it to v3.0 where LeRobot 0.4 or later has to read it"},
	{"fps-value", dataset.Error, "The row rate is absent, not positive or no whole number.", "", "write the rate of the rows as a positive whole number"},
	{"fps-float", dataset.Warn, "The row rate is written as 30.0: resuming a recording is refused.", "", "write fps as a whole number (pinch dataset repair)"},
	{"info-key", dataset.Note, "A key of v2.1 is left over.", "", "remove it (pinch dataset repair)"},
	{"info-key-v2", dataset.Warn, "A key that v2.1 has is absent; the official conversion stops there.", "", "add it (pinch dataset repair)"},
	{"path-template", dataset.Warn, "data_path or video_path is not the default; official tools ignore it.", "", "use the default layout (pinch dataset repair)"},
	{"info-totals", dataset.Error, "total_episodes disagrees with the episode table: the loader asks the hub and fails offline.", "", "correct total_episodes (pinch dataset repair)"},
	{"info-totals-frames", dataset.Error, "total_frames disagrees with the sum of the lengths.", "", "correct total_frames (pinch dataset repair)"},
	{"info-totals-tasks", dataset.Warn, "total_tasks disagrees with the task table.", "", "correct total_tasks (pinch dataset repair)"},
	{"info-totals-videos", dataset.Warn, "total_videos of v2.1 is not episodes times cameras.", "", "correct total_videos (pinch dataset repair)"},
	{"info-splits", dataset.Warn, "A split does not lie within the episodes.", "", "write from:to within the episodes (pinch dataset repair)"},
}}

var featuresArea = Area{"Features", "names, types and shapes in info.json", []Entry{
	{"feature-entry", dataset.Error, "The entry of a feature can not be used: no dtype, or a shape that is no list of whole numbers.", "", "correct the entry"},
	{"feature-missing", dataset.Error, "One of the five default features is missing.", "", "add it (pinch dataset repair)"},
	{"feature-type", dataset.Error, "A default feature has another type than the format says.", "", "store it in its own type"},
	{"feature-dtype", dataset.Error, "The dtype is none that a reader knows.", "", "use a numpy name, string, image or video"},
	{"feature-name", dataset.Error, "The name contains \"/\".", "", "rename it without \"/\""},
	{"feature-shape", dataset.Error, "The shape is empty or has no elements.", "", "drop the feature or give it a width"},
	{"feature-fps", dataset.Note, "A feature has a key fps of its own, which defeats the check on resume.", "", "remove it (pinch dataset repair)"},
	{"feature-image-name", dataset.Error, "A vector has \"image\" in its name; LeRobot's merge takes it for a picture.", "", "rename it without \"image\""},
	{"feature-names", dataset.Warn, "The number of names is not that of the elements.", "", "give one name per element"},
	{"feature-names-nested", dataset.Note, "The names are a list inside a list.", "", "write one flat list (pinch dataset repair)"},
	{"feature-role", dataset.Warn, "No feature is an observation by name, so policies ignore them.", "", "rename them: observation.state for numbers, observation.images.<camera> for pictures, action for the command"},
	{"picture-names", dataset.Error, "A picture feature has no names; making a policy fails.", "", "set names to [\"height\", \"width\", \"channels\"] (pinch dataset repair)"},
	{"picture-shape", dataset.Error, "A picture feature has not three numbers in its shape, or an odd number of channels.", "", "set shape to [height, width, 3]"},
	{"picture-order", dataset.Warn, "The last name is not \"channels\", so the shape is read as (channels, height, width).", "", "set names to [\"height\", \"width\", \"channels\"] and shape to match (pinch dataset repair)"},
	{"video-fps", dataset.Error, "video.fps in info.json is not the rate of the rows.", "", "encode at the rate of the rows, or correct info.json (pinch dataset repair, when the container has the right rate)"},
	{"video-info", dataset.Warn, "A video feature has no info map; edit tools can not build an encoder from it.", "", "fill it from the container (pinch dataset repair)"},
}}

var leftoversArea = Area{"Leftovers", "what crashes and tools leave behind", []Entry{
	{"interrupted", dataset.Error, "A save was interrupted in the middle of moving files.", "", "open the dataset for writing once (pinch ingest or pinch record), or repair it in place: that finishes or undoes the save"},
	{"repair-interrupted", dataset.Error, "A repair was interrupted in the middle of moving files.", "", "run pinch dataset repair --in-place again: it goes on where it stopped"},
	{"working-folder", dataset.Note, "A writer is open or was killed.", "", "none needed while a writer is open; the next writer empties it"},
	{"staging", dataset.Note, "Picture folders of a recording are left over.", "", "remove the folder when no recorder is running"},
	{"stray-file", dataset.Warn, "A file that is no Parquet lies in a folder where some readers open everything.", "", "move it away (pinch dataset repair)"},
}}

var tasksArea = Area{"Tasks", "the table of instructions", []Entry{
	{"tasks", dataset.Error, "The task table, or a line of it, can not be read.", "", "write it again (pinch dataset repair)"},
	{"tasks-missing", dataset.Error, "There is no task table, or it is empty.", "", "write it again from the tasks of the episodes (pinch dataset repair)"},
	{"tasks-pandas", dataset.Error, "The footer has no pandas metadata: the loader takes row numbers for texts.", "", "write it again with the texts as pandas index (pinch dataset repair)"},
	{"tasks-column", dataset.Note, "The texts stand in column \"task\", which Rerun does not read.", "", "name the column __index_level_0__ (pinch dataset repair)"},
	{"tasks-columns", dataset.Warn, "The table has more or fewer than two columns; resuming writes numbers into the others.", "", "keep task_index and the texts only (pinch dataset repair)"},
	{"tasks-numbers", dataset.Error, "Task numbers have a gap, repeat or are out of range.", "", "number them anew with pinch dataset repair"},
	{"tasks-order", dataset.Error, "Row i does not hold task i; the loader takes texts by row.", "", "sort the table (pinch dataset repair)"},
	{"task-empty", dataset.Warn, "A task has no text.", "", "write the instruction"},
	{"task-duplicate", dataset.Warn, "Two tasks have one text but for case and spaces.", "", "merge them"},
	{"task-unused", dataset.Note, "No row has this task.", "all episodes present", "none needed; leave it out when the dataset is written anew"},
}}

var episodesArea = Area{"Episode table", "meta/episodes", []Entry{
	{"episodes-table", dataset.Error, "The table holds no episodes though there are some.", "", "restore it, or build it from the rows (pinch dataset repair)"},
	{"episodes-file", dataset.Error, "A file of the table can not be opened: the whole dataset does not load.", "", "restore it, or build it from the rows (pinch dataset repair)"},
	{"episodes-value", dataset.Error, "A value of the table is null, NaN, missing or of the wrong kind.", "", "recompute it (pinch dataset repair)"},
	{"episodes-columns", dataset.Error, "A file of the table has columns that the first one lacks: the loader stops there.", "", "give all files the same columns (pinch dataset repair)"},
	{"episodes-columns-null", dataset.Warn, "A file of the table lacks columns of the first one; they become null.", "", "give all files the same columns (pinch dataset repair)"},
	{"episodes-order", dataset.Error, "Row i is not episode i; the loader looks episodes up by row.", "", "number them anew with pinch dataset repair"},
	{"episodes-twice", dataset.Error, "An episode is listed twice.", "", "remove one of the rows (pinch dataset repair)"},
	{"episode-empty", dataset.Error, "The table gives an episode no rows.", "", "remove it, or correct its length (pinch dataset repair)"},
	{"episodes-range", dataset.Error, "dataset_from_index and dataset_to_index do not follow from the lengths.", "", "recompute them (pinch dataset repair)"},
	{"episode-tasks", dataset.Warn, "An episode lists no task.", "", "list the instructions of its rows (pinch dataset repair)"},
	{"episode-task-text", dataset.Warn, "A task of an episode is not in the task table.", "", "use the text of the task table (pinch dataset repair)"},
	{"episode-tasks-rows", dataset.Warn, "The tasks that the table lists are not those of the rows.", "", "list the tasks of the rows (pinch dataset repair)"},
	{"episode-place", dataset.Error, "The rows of an episode have no place inside the dataset.", "", "correct data_path or its file numbers"},
	{"episode-video", dataset.Error, "The table has no place of a video.", "", "add the four columns videos/<camera>/... (pinch dataset repair)"},
	{"file-number", dataset.Error, "A chunk or file number is 1000 or more: the loader sorts paths as text and mixes up rows.", "1000: names have three digits", "compact the dataset"},
	{"video-range", dataset.Error, "The times of a video in the table are missing, negative or not finite.", "", "recompute the times (pinch dataset repair)"},
	{"video-from", dataset.Error, "from_timestamp is not at a frame.", "1e-4 s, the loader's tolerance", "set from_timestamp to first frame / fps, not to a sum of durations (pinch dataset repair)"},
	{"video-span", dataset.Error, "The times of a video do not span as many frames as the episode has rows.", "", "set to_timestamp to from_timestamp + length / fps (pinch dataset repair)"},
	{"video-overlap", dataset.Error, "Two episodes overlap in one video.", "half a frame", "recompute the times: from = first frame / fps"},
	{"video-long", dataset.Warn, "An episode ends beyond 1024 s of its video, where float32 times are coarser than the loader's tolerance.", "2^10 s: one float32 ulp is 1.2e-4 s", "use files under 1024 s"},
}}
