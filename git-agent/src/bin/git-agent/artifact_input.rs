//! The files that `git agent artifact put` reads.

use std::io::Read;
use std::path::Path;

use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result};
use git_agent::session::exchange::artifacts::LARGEST;

/// Returns the names and files that were given: a name and one file, or files that keep their names.
pub fn pairs(files: &[String]) -> Vec<(String, &String)> {
    if let [name, file] = files
        && (file == "-" || !Path::new(name).exists())
        && file != name
    {
        return vec![(name.clone(), file)];
    }
    files.iter().map(|file| (base_name(file), file)).collect()
}

fn base_name(file: &str) -> String {
    let name = Path::new(file).file_name();
    name.map_or_else(
        || file.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Reads a regular file, never through a link, and never more than an artifact may have.
pub fn read(env: &Env, file: &str) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read '{file}'");
    let mut content = Vec::new();
    if file == "-" {
        let input = std::io::stdin().lock();
        input
            .take(LARGEST + 1)
            .read_to_end(&mut content)
            .context(cannot)?;
        return Ok(content);
    }
    let path = env.absolute(file);
    let kind = std::fs::symlink_metadata(&path).context(cannot)?;
    if !kind.is_file() {
        return Err(Error::fatal(format!("'{file}' is not a regular file")));
    }
    let input = std::fs::File::open(&path).context(cannot)?;
    input
        .take(LARGEST + 1)
        .read_to_end(&mut content)
        .context(cannot)?;
    Ok(content)
}
