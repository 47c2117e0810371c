//! Writes every page with made-up data into a folder, for looking at them: `cargo run -p tollgate-dashboard --features
//! samples --example gallery FOLDER`. The folder can be served as it is.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use tollgate_dashboard::{asset, samples, sign_in};

fn main() -> io::Result<()> {
    let folder =
        env::args_os().nth(1).map_or_else(|| PathBuf::from("target/gallery"), PathBuf::from);
    fs::create_dir_all(&folder)?;
    for asset in asset::ALL {
        write(&folder, asset.path().trim_start_matches('/'), asset.content)?;
    }
    let mut pages = 0;
    let hostile = samples::hostile().into_iter().map(|sample| ("hostile-", sample));
    let others = samples::rich().into_iter().chain(samples::empty()).map(|sample| ("", sample));
    for (prefix, sample) in others.chain(hostile) {
        let name = format!("{prefix}{}.html", sample.name);
        write(&folder, &name, &sample.page.html(&sample.chrome))?;
        pages += 1;
    }
    for (name, model) in ["sign-in.html", "hostile-sign-in.html"].iter().zip(samples::sign_ins()) {
        write(&folder, name, &sign_in(&model))?;
        pages += 1;
    }
    println!("{pages} pages are in {}", folder.display());
    Ok(())
}

fn write(folder: &Path, name: &str, content: &str) -> io::Result<()> {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content)
}
