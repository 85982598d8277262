# placeholder until the build room is done
